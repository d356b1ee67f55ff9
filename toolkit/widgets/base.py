"""The base of all widgets: controls, a status line, a busy state, and a picture where widgets cannot run.

Every control is an attribute and every result a trait, so that code can do whatever a person clicks. The styles are
in ``base.css``. JupyterLab may call widgets from two threads; `working` and `in_turn` serialise the calls.
"""

import base64
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from html import escape
from pathlib import Path
from typing import Any, ParamSpec, Protocol, TypeVar

import anywidget
import ipywidgets
import traitlets

from toolkit.argument_checks import described
from toolkit.errors import InvalidArgument, ServiceError, ToolkitError, Unreachable
from toolkit.widgets.cell_runs import close_earlier

_Parameters = ParamSpec("_Parameters")
_ResultT = TypeVar("_ResultT")

# One lock for all widgets: an observer of one widget may change another, and two locks could deadlock.
_widget_lock = threading.RLock()


def in_turn(method: Callable[_Parameters, _ResultT]) -> Callable[_Parameters, _ResultT]:
    """Decorate a method: a call waits while another thread works on any widget."""

    @wraps(method)
    def locked(*given: _Parameters.args, **named: _Parameters.kwargs) -> _ResultT:
        with _widget_lock:
            return method(*given, **named)

    return locked


class Browser(anywidget.AnyWidget):
    """Lets the browsers that show a widget download a file or copy a text; it is invisible itself.

    Its style sheet is that of all widgets: a browser loads it before it shows the first one.
    """

    _esm = Path(__file__).with_name("browser.js")
    _css = Path(__file__).with_suffix(".css")

    def download(self, name: str, content: bytes) -> None:
        self.send({"name": name}, [content])

    def copy(self, text: str) -> None:
        self.send({"text": text})


class ServiceWidget(ipywidgets.VBox):  # type: ignore[misc]
    """Controls, the status line and results, in a column.

    Subclasses define `picture` and `summary`, and give `show` their child widgets. When the cell that made a widget
    runs again, the earlier widget is closed.
    """

    #: Controls stay enabled while this is True: a disabled button loses the keyboard focus and clicks.
    busy = traitlets.Bool(False)
    #: The error that the status line shows, if any.
    error = traitlets.Instance(Exception, allow_none=True)

    def __init__(self) -> None:
        super().__init__(layout=ipywidgets.Layout(width="100%", overflow="visible"))
        self.add_class("toolkit-widget")
        # Screen readers read the status aloud, so values that change many times a second are not shown here.
        self.status = html_pane(margin="4px 2px")
        #: Downloads files and copies texts.
        self.browser = Browser(layout=shared(ipywidgets.Layout, display="none"))
        close_earlier(self, ServiceWidget)

    def show(self, *parts: ipywidgets.Widget) -> None:
        """Set the parts of the widget; one of them must contain the status line."""
        self.children = (self.browser, *parts)

    def beside(self, *columns: ipywidgets.Widget) -> ipywidgets.Widget:
        """Put columns with the classes ``toolkit-main`` and ``toolkit-controls`` side by side, if there is room."""
        return row(*columns).add_class("toolkit-beside")

    def stop(self) -> None:
        """Stop background work, if there is any; the results stay visible."""

    def close(self) -> None:
        """Stop, and remove the widget with all of its parts from the page."""
        if not hasattr(self, "status"):  # __init__ has raised an error
            return
        self.stop()
        _close_parts(self)
        super().close()

    def say(self, text: str, *, error: Exception | None = None, bar: str = "") -> None:
        self.error = error
        role, mark = ("status", "") if error is None else ("alert", "⚠ ")
        self.status.value = f'<div role="{role}" style="min-height:1.45em">{mark}{escape(text)}{bar}</div>'

    def show_error(self, error: Exception, subject: str = "") -> None:
        self.say(f"{subject}: {error_text(error)}" if subject else error_text(error), error=error)

    @traitlets.observe("busy")
    def _show_busy(self, _change: object) -> None:
        (self.add_class if self.busy else self.remove_class)("toolkit-busy")

    @contextmanager
    def showing_errors(self) -> Iterator[None]:
        """Show an error of the block in the status line, and keep it in ``.error``."""
        try:
            yield
        except Exception as error:  # a person sees a sentence; code can read .error
            self.show_error(error)

    @contextmanager
    def working(self, text: str) -> Iterator[None]:
        """Be busy while the block runs, and show its error; the block itself reports success."""
        with _widget_lock:
            self.busy = True
            self.say(f"{text} ...", bar='<progress class="toolkit-progress" aria-label="Working"></progress>')
            try:
                with self.showing_errors():
                    yield
            finally:
                self.busy = False

    def picture(self) -> bytes:
        """Return the current picture as PNG."""
        raise TypeError(f"{type(self).__name__} has no picture")

    def saved_html(self, picture: bytes) -> str:
        """Return what a saved notebook shows without a kernel: the chart, if there is one, with this picture inside."""
        chart: Any = getattr(self, "chart", None)
        return chart.saved_html(picture, self.summary()) if hasattr(chart, "saved_html") else ""

    def summary(self) -> str:
        """Return one short line, without times and addresses, because notebooks save it."""
        return type(self).__name__

    def __repr__(self) -> str:
        return f"<{self.summary()}>" if hasattr(self, "status") else f"<{type(self).__name__}, not made>"

    def _repr_mimebundle_(self, **_given: Any) -> dict[str, Any]:  # noqa: ANN401 - the signature is IPython's
        """Return the widget; for pages without a kernel what `saved_html` returns, a picture and a text."""
        shown: dict[str, Any] = super()._repr_mimebundle_() or {}
        picture = self.picture()
        html = {"text/html": text} if (text := self.saved_html(picture)) else {}
        return shown | html | {"image/png": base64.b64encode(picture).decode("ascii"), "text/plain": repr(self)}


def _close_parts(widget: ipywidgets.Widget) -> None:
    """Close all parts of a widget: ipywidgets keeps each part in memory until it is closed.

    A widget that does not show all of its parts at a time has them all as ``parts``.
    """
    parts: Any = getattr(widget, "parts", None) or getattr(widget, "children", ())
    for part in (*parts, getattr(widget, "layout", None), getattr(widget, "style", None)):
        if isinstance(part, ipywidgets.Widget) and part not in _looks.values():
            _close_parts(part)
            part.close()


class ServiceConnection(Protocol):
    """What widgets need of a `toolkit.Connection`, which imports this package: `service_of` returns its clients."""

    @property
    def gateway(self) -> Any: ...  # noqa: ANN401

    @property
    def operator(self) -> Any: ...  # noqa: ANN401


def is_connection(value: object) -> bool:
    # A DataFrame has an attribute "dweets" too, but no "operator".
    return hasattr(type(value), "operator")


def service_of(tk: object, name: str) -> Any:  # noqa: ANN401
    """Return a service of a connection; raise InvalidArgument if `tk` is something else."""
    if not is_connection(tk):
        raise InvalidArgument(f"tk is what toolkit.connect() returns, not {described(tk)}")
    return getattr(tk, name)


class CheckList(ipywidgets.VBox):  # type: ignore[misc]
    """A list of check boxes, for keyboard (Tab and Space) and mouse; a long list has a search field, *all* and *none*.

    An HTML list with several selected rows would need the arrow keys, which JupyterLab takes. ``value`` is in the order
    of ``options``. *All* and *none* change only the boxes that the search shows.
    """

    options = traitlets.Tuple()
    value = traitlets.Tuple()

    def __init__(self, description: str, options: Sequence[str] = (), *, rows: int = 5) -> None:
        self.boxes: list[ipywidgets.Checkbox] = []
        words = f"List only those under {description} that have these words"
        self.search = make(ipywidgets.Text, placeholder="search", tip=words)
        words = f"that are listed under {description}"
        self.all = button("all", "", f"Choose all {words}", lambda: self._set_listed(True))
        self.none = button("none", "", f"Choose none of those {words}", lambda: self._set_listed(False))
        self._list = column(max_height=f"{rows * _ROW_PIXELS + 4}px")
        self._list.add_class("toolkit-checklist")
        self._head = line(label(description, flex="1", height="24px"), self.all, self.none, align_items="center")
        self._head.add_class("toolkit-checklist-head")
        super().__init__((self._head, self.search, self._list), layout=shared(ipywidgets.Layout, width="100%"))
        self._rows = rows
        self.search.observe(lambda _change: self._show_matches(), "value")
        self.options = tuple(options)

    @traitlets.validate("value")
    def _checked_value(self, proposal: Any) -> tuple[str, ...]:  # noqa: ANN401
        if unknown := [name for name in proposal["value"] if name not in self.options]:
            raise traitlets.TraitError(f"{', '.join(map(repr, unknown))} is not among the options")
        return tuple(name for name in self.options if name in proposal["value"])

    @traitlets.observe("options")
    def _rebuild(self, _change: object) -> None:
        still_chosen = [name for name in self.value if name in self.options]
        old_boxes = self.boxes
        self.boxes = [check_box(name, name in still_chosen) for name in self.options]
        for box in self.boxes:
            box.observe(self._update_value, "value")
        is_long = len(self.options) > self._rows
        set_visible(self.search, is_long)
        for bulk_button in (self.all, self.none):
            set_visible(bulk_button, len(self.options) > 1)
        self._show_matches()
        for box in old_boxes:
            _close_parts(box)
            box.close()
        self.value = tuple(still_chosen)

    def _show_matches(self) -> None:
        words = self.search.value.casefold().split()
        self._list.children = [box for box in self.boxes if all(word in box.description.casefold() for word in words)]

    @in_turn
    def _set_listed(self, chosen: bool) -> None:
        listed = {box.description for box in self._list.children}
        self.value = tuple(name for name in self.options if (chosen if name in listed else name in self.value))

    @traitlets.observe("value")
    @in_turn
    def _update_boxes(self, _change: object) -> None:
        for box in self.boxes:
            box.value = box.description in self.value

    @in_turn
    def _update_value(self, change: Any) -> None:  # noqa: ANN401
        name = change["owner"].description
        if change["new"] != (name in self.value):
            others = tuple(other for other in self.value if other != name)
            self.value = (*others, name) if change["new"] else others


#: Height of a check box in a list, in pixels; the style sheet has the same height.
_ROW_PIXELS = 24


#: Layouts and styles by their values. Each of them is a model in the kernel and in the browser, as dear as a control.
_looks: dict[Any, Any] = {}


def shared(kind: type[Any], **values: str) -> Any:  # noqa: ANN401
    """Return a layout or a style with these values, which many widgets have: do not change it, and do not close it."""
    key = kind, *values.items()
    if key not in _looks or _looks[key].comm is None:  # the notebook has closed all widgets
        _looks[key] = kind(**values)
    return _looks[key]


def set_visible(widget: ipywidgets.Widget, is_visible: bool) -> None:
    (widget.remove_class if is_visible else widget.add_class)("toolkit-hidden")


def line(*parts: ipywidgets.Widget, **layout: str) -> ipywidgets.HBox:
    return ipywidgets.HBox(parts, layout=shared(ipywidgets.Layout, **layout))


def row(*parts: ipywidgets.Widget) -> ipywidgets.HBox:
    """Put parts side by side; they wrap if the page is narrow."""
    return line(*parts, flex_flow="row wrap", align_items="flex-start", width="100%", overflow="visible")


def column(*parts: ipywidgets.Widget, **layout: str) -> ipywidgets.VBox:
    return ipywidgets.VBox(parts, layout=shared(ipywidgets.Layout, **layout))


def make(
    kind: type[Any], description: str = "", width: str = "auto", *, label: str = "initial", tip: str = "",
    height: str = "", **traits: Any,  # noqa: ANN401
) -> Any:  # fmt: skip  # noqa: ANN401
    """Return a control of this kind with a tooltip; by default, its label is as wide as its text."""
    # If these controls have a description, ipywidgets does not show their `tooltip`: put it into an HTML `title`.
    if tip and description and issubclass(kind, ipywidgets.Text | ipywidgets.Dropdown | ipywidgets.Checkbox):
        description = f'<span title="{escape(tip, quote=True)}">{escape(description)}</span>'
        traits["description_allow_html"] = True
    elif tip:
        traits["tooltip"] = tip
    traits.setdefault("style", shared(kind.style.klass, description_width=label))
    layout = shared(ipywidgets.Layout, width=width, **({"height": height} if height else {}))
    return kind(description=description, layout=layout, **traits)


def slider(
    description: str, value: float, least: float, most: float, step: float, tooltip: str, *, readout: str = ""
) -> ipywidgets.Widget:
    """Return a slider as wide as its column, under its description; for whole numbers if `step` is an int."""
    kind = ipywidgets.IntSlider if isinstance(step, int) else ipywidgets.FloatSlider
    traits: dict[str, Any] = {"value": value, "min": least, "max": most, "step": step}
    traits |= {"readout_format": readout} if readout else {}
    return make(kind, description, label="100%", height="auto", tip=tooltip, **traits).add_class("toolkit-stacked")


def text_field(description: str, placeholder: str = "", value: str = "", **size: str) -> ipywidgets.Text:
    """Return a text field whose value changes on Enter or when the field loses focus; `size` goes to `make`."""
    traits: dict[str, Any] = {"value": value, "placeholder": placeholder, "continuous_update": False}
    return make(ipywidgets.Text, description, **size, **traits)


def check_box(description: str, value: bool = True, **size: str) -> ipywidgets.Checkbox:
    return make(ipywidgets.Checkbox, description, value=value, indent=False, **size)


def button(description: str, icon: str, tooltip: str, clicked: Callable[[], object]) -> ipywidgets.Button:
    layout = shared(ipywidgets.Layout, width="auto", min_width="3em", align_self="flex-start")
    traits = {"icon": icon, "tooltip": tooltip, "layout": layout, "style": shared(ipywidgets.ButtonStyle)}
    made = ipywidgets.Button(description=description, **traits)
    made.on_click(lambda _button: clicked())
    return made


def toggle_buttons(tooltips: Mapping[str, str], button_width: str = "auto", **layout: str) -> ipywidgets.ToggleButtons:
    """Return buttons of which one is pressed; `tooltips` are by name."""
    style = shared(ipywidgets.ToggleButtons.style.klass, button_width=button_width)
    traits = {"options": [*tooltips], "tooltips": [*tooltips.values()], "style": style}
    return ipywidgets.ToggleButtons(layout=shared(ipywidgets.Layout, **layout), **traits)


def label(text: str = "", **layout: str) -> ipywidgets.Label:
    style = shared(ipywidgets.Label.style.klass)
    return ipywidgets.Label(text, layout=shared(ipywidgets.Layout, **layout), style=style)


def html_pane(**layout: str) -> ipywidgets.HTML:
    style = shared(ipywidgets.HTML.style.klass)
    return ipywidgets.HTML(layout=shared(ipywidgets.Layout, **(layout or {"width": "auto"})), style=style)


def html_line() -> ipywidgets.HTML:
    return html_pane(width="auto", align_self="center", margin="2px 0.5em")


def copy_button(copy: Callable[[], str], widget: ServiceWidget) -> ipywidgets.Button:
    """Return a button that copies the Python code that `copy` returns."""

    def clicked() -> None:
        with widget.working("Copying"):
            widget.browser.copy(copy())
            widget.say("Copied. If the browser does not allow it, select the code below.")

    return button("Copy code", "clipboard", "Copy the Python code that gives what is shown", clicked)


def code_html(code: str) -> str:
    return f'<pre class="toolkit-code" tabindex="0">{escape(code)}</pre>'


def scrolled(wide_html: str, *, caption: str) -> str:
    """Wrap wide HTML in a named region that scrolls, also with the keyboard."""
    return (
        f'<div class="toolkit-scrolled jp-RenderedHTMLCommon" role="region" aria-label="{escape(caption)}" '
        f'tabindex="0">{wide_html}</div>'
    )


def error_text(error: Exception, retry: str = "Trying again may help.") -> str:
    """Return a sentence about an error, for a person, with the sentence `retry` if the error may pass."""
    if isinstance(error, ToolkitError):
        hint = f" {retry}" if error.retryable else ""
        # Without the name of an endpoint.
        text = error.message if isinstance(error, ServiceError | Unreachable) else str(error)
    elif isinstance(error, OSError) and error.strerror:
        name = f" ({error.filename})" if error.filename else ""
        text, hint = f"{error.strerror}{name}", ""
    else:
        text, hint = f"unexpected {type(error).__name__}: {error}", " The error is kept in .error"
    return f"{text[:1].upper()}{text[1:].rstrip('.')}.{hint}"
