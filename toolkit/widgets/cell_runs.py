"""The notebook cell that is running: if it ran before, the widgets and gateways of the earlier run are closed."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary


class CellRun(NamedTuple):
    """The ids of a cell and of one run of the cell; ``cell`` is empty outside of notebooks that send cell ids."""

    cell: str
    run: str


def current_cell_run() -> CellRun:
    # IPython is not imported here: a program without a notebook would wait for the import.
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return CellRun(parent.get("metadata", {}).get("cellId", ""), parent.get("header", {}).get("msg_id", ""))


#: Objects that earlier runs made and that are still in use, because a notebook keeps the results of its cells.
_made: WeakKeyDictionary[Any, CellRun] = WeakKeyDictionary()


def close_earlier(new: object, kind: type[Any]) -> None:
    """Close all objects of this kind that earlier runs of this cell made; `new` belongs to the present run."""
    current = current_cell_run()
    for made, earlier in list(_made.items()):
        if isinstance(made, kind) and current.cell and current.cell == earlier.cell and current.run != earlier.run:
            made.close()
            del _made[made]
    _made[new] = current
