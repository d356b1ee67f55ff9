"""The notebook cell that runs now: with its id, widgets and gateways of an earlier run of the cell are closed."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary


class CellRun(NamedTuple):
    """The ids of a cell and of one run of the cell; ``cell`` is empty outside of notebooks that send cell ids."""

    cell: str
    run: str

    def replaces(self, other: CellRun) -> bool:
        return bool(self.cell) and self.cell == other.cell and self.run != other.run


def current_cell_run() -> CellRun:
    # IPython is not imported here: a program without a notebook would wait for the import.
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return CellRun(parent.get("metadata", {}).get("cellId", ""), parent.get("header", {}).get("msg_id", ""))


#: A notebook keeps the results of its cells, and with them what earlier runs made.
_made: WeakKeyDictionary[Any, CellRun] = WeakKeyDictionary()


def close_earlier(new: object, kind: type[Any]) -> CellRun:
    """Close what an earlier run of this cell made of this kind; return the run that makes `new`."""
    now = current_cell_run()
    for other, run in list(_made.items()):
        if isinstance(other, kind) and now.replaces(run):
            other.close()
            del _made[other]
    _made[new] = now
    return now
