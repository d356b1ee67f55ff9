"""The notebook cell that runs now, and whether what it made before is of an earlier run of it."""

from __future__ import annotations

import sys
from typing import Any, NamedTuple


class CellRun(NamedTuple):
    """One run of one cell.

    Parameters
    ----------
    cell
        Id of the cell; empty where the notebook does not tell it, or where there is none.
    run
        Id of this run of it.

    Examples
    --------
    >>> CellRun("b4a1", "run 2").replaces(CellRun("b4a1", "run 1"))
    True
    >>> CellRun("", "run 2").replaces(CellRun("", "run 1"))
    False
    """

    cell: str
    run: str

    def replaces(self, other: CellRun) -> bool:
        """Whether this is a later run of the same cell."""
        return bool(self.cell) and self.cell == other.cell and self.run != other.run


def cell_that_runs() -> CellRun:
    """Return the cell that runs now, as JupyterLab tells the kernel."""
    # Not imported: a program without a notebook need not wait for IPython.
    ipython: Any = sys.modules.get("IPython")
    shell: Any = ipython.get_ipython() if ipython is not None else None
    parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
    return CellRun(parent.get("metadata", {}).get("cellId", ""), parent.get("header", {}).get("msg_id", ""))
