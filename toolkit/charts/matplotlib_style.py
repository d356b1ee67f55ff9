"""The matplotlib style of all pictures of the toolkit, public as `toolkit.style`."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from toolkit.charts.look import PALETTE

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

# Two threads that change the settings at the same time would keep those of each other.
_settings_lock = threading.RLock()


@cache
def _settings() -> dict[Any, Any]:
    from cycler import cycler
    from matplotlib import rc_params_from_file

    file = Path(__file__).parent / "static" / "toolkit.mplstyle"
    return {**rc_params_from_file(file, use_default_template=False), "axes.prop_cycle": cycler(color=PALETTE)}


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
