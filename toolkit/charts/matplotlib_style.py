"""The matplotlib style of all pictures of the toolkit, public as `toolkit.style`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from toolkit.charts.look import PALETTE

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

# Two threads that change the settings at the same time would keep those of each other.
_settings_lock = threading.RLock()
_INK, _GRID = "#333333", "#d9d9d9"
_SETTINGS: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#8c8c8c",
    "axes.formatter.use_mathtext": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.labelcolor": _INK,
    "axes.labelsize": 9.5,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": _INK,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "figure.dpi": 100,
    "figure.figsize": (7.5, 2.9),
    "figure.titlesize": 11,
    "figure.titleweight": "bold",
    "font.size": 9.5,
    "grid.color": _GRID,
    "grid.linewidth": 0.7,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "patch.edgecolor": "white",
    "text.color": _INK,
    "xtick.color": _INK,
    "xtick.labelsize": 9,
    "ytick.color": _INK,
    "ytick.labelsize": 9,
    "ytick.major.size": 0,
}


def _settings() -> dict[Any, Any]:
    from cycler import cycler

    return _SETTINGS | {"axes.prop_cycle": cycler(color=PALETTE)}


def style() -> None:
    """Draw all further pictures of matplotlib in the toolkit's style: its colours, a light grid, titles on the left.

    ``matplotlib.rcdefaults()`` returns to the style of matplotlib. Pictures of the toolkit, such as
    ``frame.dweets.plot()``, always have this style.

    Examples
    --------
    >>> import matplotlib
    >>> import toolkit
    >>> toolkit.style()
    >>> matplotlib.rcParams["axes.titlelocation"]
    'left'
    >>> matplotlib.rcdefaults()
    """
    import matplotlib

    matplotlib.rcParams.update(_settings())


def styled(draw: Callable[P, ResultT]) -> Callable[P, ResultT]:
    """Decorate a function that draws with matplotlib: its pictures have the style of the toolkit."""

    @wraps(draw)
    def drawn(*args: P.args, **options: P.kwargs) -> ResultT:
        from matplotlib import rcParams

        settings = _settings()
        with _settings_lock:
            # Not rc_context: it would also undo what the first import of pyplot sets, and IPython would show nothing.
            before = {name: rcParams[name] for name in settings}
            rcParams.update(settings)
            try:
                return draw(*args, **options)
            finally:
                rcParams.update(before)

    return drawn
