"""What the widgets of all services share: a status line, a busy state, and a picture where widgets cannot run.

A widget of a service is a `ServiceWidget`. It has every control as an attribute and its result as a trait, so that
what a person clicks can also be typed. It does its work inside ``with self.working(...)``: an error then becomes a
sentence in the status line, never a traceback. What changes many times a second belongs elsewhere, as the status
line is read aloud.

All are laid out alike: what one turns, then the status line right under it, then what comes of it. How they look is
in ``widget_family.css``.

Outside of `toolkit lab`, JupyterLab and ipykernel 7 call them from two threads: the first use of a control in the
main one, all others in a subshell. So they take turns: `working` waits for its turn, and `in_turn` makes any other
method wait.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any, ParamSpec, TypeVar
from weakref import WeakSet

import ipywidgets
import traitlets

from toolkit.errors import ToolkitError
from toolkit.notebook_cell import cell_that_runs

_SHEET = f"<style>{Path(__file__).with_suffix('.css').read_text('utf-8')}</style>"


_Given = ParamSpec("_Given")
_Told = TypeVar("_Told")

# One for all widgets: where an observer turns one by another, two locks could wait for each other.
_turn = threading.RLock()


def in_turn(method: Callable[_Given, _Told]) -> Callable[_Given, _Told]:
    """Make a method wait until what another thread does with any widget is done."""

    @wraps(method)
    def wait(*given: _Given.args, **named: _Given.kwargs) -> _Told:
        with _turn:
            return method(*given, **named)

    return wait


class ServiceWidget(ipywidgets.VBox):  # type: ignore[misc]
    """A column: controls, the status line, results.

    Subclasses give `picture` and `summary`, and lay themselves out with `show`. When the cell that made one runs
    again, the one it made before is closed.

    Attributes
    ----------
    status : ipywidgets.HTML
        One line: what was done, or what is wrong and what to do. Read aloud by screen readers.
    busy : bool
        True while something is being worked on. Controls stay as they are: a button that is disabled for a moment
        loses the focus of the keyboard, and clicks that fall into it; whatever is clicked meanwhile comes next.
    error : Exception or None
        What the status line complains about.
    """

    busy = traitlets.Bool(False)
    error = traitlets.Instance(Exception, allow_none=True)

    def __init__(self) -> None:
        super().__init__(layout=ipywidgets.Layout(width="100%", overflow="visible"))
        self.add_class("toolkit-widget")
        self.status = ipywidgets.HTML(layout=ipywidgets.Layout(margin="4px 2px"))
        self._sheet = ipywidgets.HTML(_SHEET, layout=ipywidgets.Layout(display="none"))
        self.made_in = cell_that_runs()
        for other in [one for one in open_widgets() if self.made_in.replaces(one.made_in)]:
            other.close()
        _open.add(self)

    def show(self, *controls: ipywidgets.Widget, results: Sequence[ipywidgets.Widget] = ()) -> None:
        """Show the controls, the status line under them, and the results under it."""
        self.children = (self._sheet, *controls, self.status, *results)

    def stop(self) -> None:
        """End what runs in the background, where there is something; what is shown stays."""

    def close(self) -> None:
        """Stop, and take the widget with all of its parts off the page."""
        self.stop()
        _open.discard(self)
        for part in _parts_of(self):
            part.close()
        super().close()

    def say(self, text: str) -> None:
        """Write what was done into the status line."""
        self.error = None
        self.status.value = _line("status", text)

    def complain(self, error: Exception) -> None:
        """Write what is wrong into the status line, and keep the error in ``.error``."""
        self.error = error
        self.status.value = _line("alert", worded(error))

    @traitlets.observe("busy")
    def _show_busy(self, _change: object) -> None:
        (self.add_class if self.busy else self.remove_class)("toolkit-busy")

    @contextmanager
    def complaining(self) -> Iterator[None]:
        """Turn an error of the block into a line of the status; it stays readable in ``.error``."""
        try:
            yield
        except Exception as error:  # a person sees a sentence, a programmer has .error
            self.complain(error)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Be busy while the block runs, and complain where it fails. The block itself says what it did."""
        with _turn:
            self.busy = True
            self.error = None
            self.status.value = _line("status", f"{text} ...", _PROGRESS)
            try:
                with self.complaining():
                    yield
            finally:
                self.busy = False

    def picture(self) -> bytes:
        """Return what is shown now as PNG."""
        raise TypeError(f"{type(self).__name__} has no picture")

    def summary(self) -> str:
        """Return one short line that is the same for the same state: no times, no addresses."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.summary()}>" if hasattr(self, "status") else f"<{type(self).__name__}, not made>"

    def _repr_mimebundle_(self, **_given: Any) -> dict[str, Any]:  # noqa: ANN401 - the signature is IPython's
        """Show the widget, a picture where widgets cannot run, a line of text where pictures cannot be shown."""
        shown: dict[str, Any] = super()._repr_mimebundle_() or {}
        return shown | {
            "image/png": base64.b64encode(self.picture()).decode("ascii"),
            "text/plain": repr(self),
        }


_open: WeakSet[ServiceWidget] = WeakSet()


def open_widgets() -> list[ServiceWidget]:
    """Return the widgets of this process that are not closed."""
    return list(_open)


def _parts_of(widget: ipywidgets.Widget) -> Iterator[ipywidgets.Widget]:
    """Give everything below a widget, the deepest first: ipywidgets keeps each of them until it is closed itself."""
    for child in getattr(widget, "children", ()):
        yield from _parts_of(child)
        yield child
    for name in ("layout", "style"):
        part = getattr(widget, name, None)
        if isinstance(part, ipywidgets.Widget):
            yield part


class CheckList(ipywidgets.VBox):  # type: ignore[misc]
    """Choose any of several by ticking them: Tab and Space, or a click.

    In place of a list in which several can be selected: JupyterLab takes the arrow keys that it needs, and few know
    the other keys.

    Attributes
    ----------
    options : tuple of str
        What there is to choose from.
    value : tuple of str
        What is chosen, in the order of the options.

    Examples
    --------
    >>> fields = CheckList("Fields", options=["rain", "wind"])
    >>> fields.value = ["wind"]
    >>> fields.boxes[1].value
    True
    """

    options = traitlets.Tuple()
    value = traitlets.Tuple()

    def __init__(self, description: str, options: Sequence[str] = (), *, width: str = "14em") -> None:
        self.boxes: list[ipywidgets.Checkbox] = []
        # What is hidden scrolls; the margin leaves room for the ring around what has the focus.
        inner = ipywidgets.Layout(max_height="10.5em", overflow="auto", margin="0 0 0 2px", width="100%")
        self._list = ipywidgets.VBox(layout=inner)
        title = ipywidgets.Label(description, layout=ipywidgets.Layout(height="1.8em"))
        super().__init__((title, self._list), layout=ipywidgets.Layout(width=width))
        self.options = tuple(options)

    @traitlets.validate("value")
    def _checked(self, proposal: Any) -> tuple[str, ...]:  # noqa: ANN401
        if unknown := [name for name in proposal["value"] if name not in self.options]:
            raise traitlets.TraitError(f"{', '.join(map(repr, unknown))} is not among the options")
        return tuple(name for name in self.options if name in proposal["value"])

    @traitlets.observe("options")
    def _rebuild(self, _change: object) -> None:
        kept = [name for name in self.value if name in self.options]
        before = self.boxes
        self.boxes = [check_box(name, name in kept) for name in self.options]
        for box in self.boxes:
            box.layout.flex = "0 0 auto"  # or a long list would be squeezed instead of scrolled
            box.observe(self._take, "value")
        self._list.children = self.boxes
        for part in (part for box in before for part in (*_parts_of(box), box)):
            part.close()
        self.value = tuple(kept)

    @traitlets.observe("value")
    @in_turn
    def _tick(self, _change: object) -> None:
        for box in self.boxes:
            box.value = box.description in self.value

    @in_turn
    def _take(self, change: Any) -> None:  # noqa: ANN401
        name = change["owner"].description
        if change["new"] != (name in self.value):
            others = tuple(other for other in self.value if other != name)
            self.value = (*others, name) if change["new"] else others


def row(*parts: ipywidgets.Widget) -> ipywidgets.HBox:
    """Put parts side by side; they wrap where the page is narrow."""
    layout = ipywidgets.Layout(flex_flow="row wrap", align_items="flex-start", width="100%", overflow="visible")
    return ipywidgets.HBox(parts, layout=layout)


def sized(control: ipywidgets.Widget, width: str = "auto", *, label: str = "initial") -> ipywidgets.Widget:
    """Give a control this width, and its description as much as it needs, or `label` to align it with others."""
    control.style.description_width = label
    control.layout.width = width
    return control


def column(*parts: ipywidgets.Widget) -> ipywidgets.VBox:
    """Put parts under each other, apart from what stands beside them."""
    return ipywidgets.VBox(parts, layout=ipywidgets.Layout(margin="0 1.5em 0 0", overflow="visible"))


def text_field(description: str, placeholder: str = "", value: str = "", **size: str) -> ipywidgets.Text:
    """Return a line of text that counts once Enter is pressed or the field is left; `size` as of `sized`."""
    text = ipywidgets.Text(value, description=description, placeholder=placeholder, continuous_update=False)
    return sized(text, **size)


def check_box(description: str, value: bool = True, **size: str) -> ipywidgets.Checkbox:
    """Return a box to tick."""
    return sized(ipywidgets.Checkbox(value, description=description, indent=False), **size)


def number_field(description: str, value: float, *, least: float, step: float, **size: str) -> ipywidgets.Widget:
    """Return a field for a number of at least `least`."""
    number = ipywidgets.BoundedFloatText(value, min=least, max=1e6, step=step, description=description)
    return sized(number, **size)


def button(description: str, icon: str = "", tooltip: str = "") -> ipywidgets.Button:
    """Return a button as wide as its words."""
    layout = ipywidgets.Layout(width="auto", min_width="3em", align_self="flex-start")
    return ipywidgets.Button(description=description, icon=icon, tooltip=tooltip, layout=layout)


def html_pane() -> ipywidgets.HTML:
    """Return a place for a result, as wide as the widget."""
    return ipywidgets.HTML(layout=ipywidgets.Layout(width="auto"))


def html_line() -> ipywidgets.HTML:
    """Return a place for a few words beside controls."""
    return ipywidgets.HTML(layout=ipywidgets.Layout(width="auto", align_self="center", margin="2px 0.5em"))


def scrolled(wide_html: str, *, caption: str) -> str:
    """Wrap what may be wider than the page, so that it has a name and scrolls, also with the keyboard."""
    return (
        f'<div class="toolkit-scrolled jp-RenderedHTMLCommon" role="region" aria-label="{escape(caption)}" '
        f'tabindex="0">{wide_html}</div>'
    )


def counted(number: int, what: str) -> str:
    """Say how many.

    Examples
    --------
    >>> counted(1, "gap"), counted(1461, "row")
    ('1 gap', '1,461 rows')
    """
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def worded(error: Exception) -> str:
    """Say an error as a sentence for a person.

    Examples
    --------
    >>> from toolkit.errors import Unreachable
    >>> worded(Unreachable("no answer"))
    'No answer. Trying again may help.'
    """
    if isinstance(error, ToolkitError):
        hint = " Trying again may help." if error.retryable else ""
        text = str(error)
    elif isinstance(error, OSError) and error.strerror:
        name = f" ({error.filename})" if error.filename else ""
        text, hint = f"{error.strerror}{name}", ""
    else:
        text, hint = f"unexpected {type(error).__name__}: {error}", " The error is kept in .error"
    return f"{text[:1].upper()}{text[1:].rstrip('.')}.{hint}"


_PROGRESS = '<progress class="toolkit-progress" aria-label="Working"></progress>'


def _line(role: str, text: str, bar: str = "") -> str:
    mark = "⚠ " if role == "alert" else ""
    return f'<div role="{role}" style="min-height:1.45em">{mark}{escape(text)}{bar}</div>'
