"""HandwritingExplorer: write a text, choose a hand, change parameters, compare, download the file or copy the code."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import ipywidgets
import traitlets
from PIL import Image

from toolkit.argument_checks import checked_arguments
from toolkit.handwriting.client.picture_sheet import picture_sheet
from toolkit.handwriting.client.style import Style
from toolkit.handwriting.handwritten import Handwritten, png_bytes
from toolkit.handwriting.widgets.hand_picker import HandPicker, paper
from toolkit.handwriting.widgets.style_controls import StyleControls
from toolkit.handwriting.wire import CONTENT_TYPES, Format
from toolkit.widget_family import ServiceWidget, button, column, counted, html_line, html_pane, in_turn, part_of, row

if TYPE_CHECKING:
    from toolkit.connection import Connection
    from toolkit.handwriting.client.handwriting import HandwritingClient

_TEXT = "The quick brown fox\njumps over the lazy dog."


class _Settings(NamedTuple):
    """The values of the controls, except the kind of file."""

    text: str
    handwriting: str
    style: Style

    def code(self, kind: str) -> str:
        given = "".join(f", {name}={value!r}" for name, value in self.style.given().items())
        return f"tk.handwriting.{kind}({self.text!r}, {self.handwriting!r}{given})"


@checked_arguments
class HandwritingExplorer(ServiceWidget):
    """Write a text and see it in any hand while you change the parameters.

    Parameters
    ----------
    tk
        A connection.
    text, handwriting
        The text and the hand at the start.

    Attributes
    ----------
    result : Handwritten or None
        The picture that is shown.
    kept : Handwritten or None
        The picture for comparison.
    text, picker, look, kind, keep_button, drop_button
        The controls: set ``.value``, ``.click()`` as a person would; ``picker.handwriting`` is the hand,
        ``look.size``, ``look.line_spacing``, ``look.seed``, ... are the parameters.

    Examples
    --------
    >>> import toolkit
    >>> tk = toolkit.connect()
    >>> explorer = HandwritingExplorer(tk, text="Hello")
    >>> explorer.look.line_spacing.value = 3.0
    >>> explorer.code
    "tk.handwriting.png('Hello', 'Molly', height='auto', line_spacing=3.0, random_seed=1)"
    >>> tk.close()
    """

    result = traitlets.Instance(Handwritten, allow_none=True)
    kept = traitlets.Instance(Handwritten, allow_none=True)

    def __init__(self, tk: Connection, *, text: str = _TEXT, handwriting: str = "Molly") -> None:
        self._client: HandwritingClient = part_of(tk, "handwriting")
        super().__init__()
        self._shown: _Settings | None = None
        self._kept_code = ""
        layout = ipywidgets.Layout(width="auto", height="6em")
        self.text = ipywidgets.Textarea(text, placeholder="Write something", layout=layout)
        self.look = StyleControls(self._draw)
        self.picker = HandPicker(self._client, handwriting, self._attempt)
        kinds = ipywidgets.ToggleButtons(options=[("PNG", "png"), ("PDF", "pdf")], tooltips=["A picture", "A document"])
        kinds.style.button_width, kinds.layout.width = "4em", "auto"
        self.kind = kinds
        self.keep_button = button("Compare", "columns", "Keep this one at the left, and go on at the right")
        self.drop_button = button("Stop comparing", "times", "Take the kept one away")
        self.paper, self.link, self.code_line = html_pane(), html_line(), html_pane()
        wide = ipywidgets.Layout(flex="1 1 26em", min_width="20em", overflow="visible")
        offers = row(self.kind, self.link, self.keep_button, self.drop_button)
        right = ipywidgets.VBox([self.text, self.paper, offers, self.code_line], layout=wide)
        self.show(self.picker, results=(row(column(self.look), right),))
        self._show_comparison()
        with self.working("Loading the hands"):
            self.picker.load()
        if self.error is None:
            self._draw_text()
        self.text.observe(lambda _: self._draw_text(), "value")
        self.picker.observe(lambda _: self._draw(), "handwriting")
        self.kind.observe(lambda _: self._attempt(self._describe), "value")
        self.keep_button.on_click(lambda _: self._keep())
        self.drop_button.on_click(lambda _: self._drop())

    @property
    def code(self) -> str:
        """The line of Python that gives `file`."""
        return self._settings.code(self.kind.value)

    @property
    def file(self) -> Handwritten:
        """The file of the chosen kind for the present settings; raises the error if it cannot be rendered."""
        if self.result is not None and self.kind.value == "png" and self._shown == self._settings:
            return self.result
        return self._render(self._settings, self.kind.value)

    def picture(self) -> bytes:
        """Return what is shown now as PNG."""
        writings = [writing for writing in (self.kept, self.result) if writing is not None]
        if len(writings) == 2:
            return png_bytes(picture_sheet(writings, 2, ["kept", "now"]).image)
        return png_bytes(writings[0].on_paper() if writings else Image.new("RGB", (8, 8), "white"))

    def summary(self) -> str:
        """Return one line about what is shown."""
        shown = "nothing to show" if self.result is None else repr(self.result)[1:-1]
        return f"HandwritingExplorer: {shown}"

    def _attempt(self, work: Callable[[], None]) -> None:
        """Run `work`; the status line shows an error, and the last picture stays."""
        with self.working("Writing"):
            work()
            if self.result is None:
                self.say("")
            elif self._shown != self._settings:
                self.say("The picture shows earlier settings: the present ones could not be rendered")
            else:
                self.say(_figures(self.result))

    @in_turn
    def _draw_text(self) -> None:
        self._draw()
        if self.error is None:
            self._attempt(lambda: self.picker.show_text(self.text.value))

    def _draw(self) -> None:
        self._attempt(self._write)

    @property
    def _settings(self) -> _Settings:
        return _Settings(self.text.value, self.picker.handwriting, self.look.style)

    def _render(self, settings: _Settings, kind: Format) -> Handwritten:
        return self._client.rendered(settings.text, settings.handwriting, kind, settings.style)

    def _write(self) -> None:
        settings = self._settings
        with self._replacing_link():
            done = self._render(settings, "png")
            self._shown, self.result = settings, done
            self._show_comparison()
            self._describe()

    def _show_comparison(self) -> None:
        """Show the picture alone, or side by side with the kept one."""
        self.drop_button.layout.display = "none" if self.kept is None else ""
        if self.result is None or self._shown is None:
            return
        label = f"{self._shown.text[:200]} (in the hand of {self.result.handwriting})"
        now = paper(self.result, label)
        if self.kept is None:
            self.paper.value = now
            return
        made_by = self._shown.code(self.kind.value)
        cells = ((paper(self.kept, "What it is compared with"), self._kept_code), (now, made_by))
        self.paper.value = '<div style="display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start">' + "".join(
            f'<figure style="margin:0;flex:1 1 14em;min-width:0">{image}'
            f'<figcaption style="font-size:85%;overflow-wrap:anywhere">{escape(code)}</figcaption></figure>'
            for image, code in cells
        ) + "</div>"  # fmt: skip

    def _describe(self) -> None:
        """Show the code of the picture, and a link to the file for the present settings."""
        if self._shown is None:
            return
        with self._replacing_link():
            code = escape(self._shown.code(self.kind.value), quote=True)
            copy = "navigator.clipboard.writeText(this.dataset.code);this.textContent='Copied'"
            self.code_line.value = (
                f'<button class="jupyter-button widget-button" style="width:auto" data-code="{code}" onclick="{copy}">'
                f'Copy code</button> <code style="overflow-wrap:anywhere">{code}</code>'
            )
            file = self.file
            name = escape(f"{file.handwriting.lower()}.{file.kind}", quote=True)
            data = base64.b64encode(file.data).decode("ascii")
            self.link.value = (
                f'<a download="{name}" href="data:{CONTENT_TYPES[file.kind]};base64,{data}" '
                f'style="text-decoration:underline">Download {name}</a> ({len(file.data) / 1000:.1f} KB)'
            )

    @contextmanager
    def _replacing_link(self) -> Iterator[None]:
        """Hide the link while the file is made, and remove it after an error: it would offer the previous file."""
        self.link.layout.visibility = "hidden"  # keeps its space, so that the buttons beside it do not move
        try:
            yield
        except Exception:
            self.link.value = ""
            raise
        self.link.layout.visibility = "visible"

    @in_turn
    def _keep(self) -> None:
        if self._shown is not None:
            self.kept, self._kept_code = self.result, self._shown.code(self.kind.value)
            self._show_comparison()

    @in_turn
    def _drop(self) -> None:
        self.kept = None
        self._show_comparison()


def _figures(done: Handwritten) -> str:
    cut = " · some ink is cut off" if done.overflow else ""
    return (
        f"{done.handwriting}: {done.width:g} x {done.height:g} px · {counted(done.lines or 0, 'line')} · "
        f"ink {done.ink_share or 0:.2%} · {done.milliseconds:.0f} ms{cut}"
    )
