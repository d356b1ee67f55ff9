"""The notebook cell that runs now. What an earlier run of the same cell made is closed."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class CellRun(NamedTuple):
    """One run of one cell, by their ids; ``cell`` is empty where there is no notebook or it names no cell."""

    cell: str
    run: str

    def replaces(self, other: CellRun) -> bool:
        return bool(self.cell) and self.cell == other.cell and self.run != other.run


def current_cell_run() -> CellRun:
    # Not imported: a program without a notebook need not wait for IPython.
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return CellRun(parent.get("metadata", {}).get("cellId", ""), parent.get("header", {}).get("msg_id", ""))
