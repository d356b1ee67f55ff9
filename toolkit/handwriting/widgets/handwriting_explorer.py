"""HandwritingExplorer: write a text, choose a hand, change parameters, compare, download the file or copy the code."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import ipywidgets
import traitlets
from PIL import Image

from toolkit.argument_checks import checked_arguments
from toolkit.errors import counted
from toolkit.handwriting.client.handwriting import HandwritingClient, renderer_of
from toolkit.handwriting.client.style import PageStyle
from toolkit.handwriting.client.sweeping import contact_sheet
from toolkit.handwriting.handwritten import SUFFIXES, Handwritten, png_bytes
from toolkit.handwriting.widgets.hand_picker import HandPicker, picture_html
from toolkit.handwriting.widgets.style_controls import StyleControls
from toolkit.handwriting.wire import CONTENT_TYPES, FileKind
from toolkit.widgets.base import ServiceWidget, add_tip, button, html_line, html_pane, in_turn, row, service_of

if TYPE_CHECKING:
    from toolkit.widgets.base import ServiceConnection

#: The choices of a file, by the name of the client method: the kind on the wire, and the tooltip.
_FILE_CHOICES: dict[str, tuple[FileKind, str]] = {
    "png": ("png", "A picture, transparent without paper, 72 pixels per inch"),
    "pdf": ("pdf", "A document to print, whose words can be searched"),
    "svg": ("svg", "A drawing that is sharp at every size"),
    "animation": ("replay", "An SVG that shows how the text is written"),
}
_INITIAL_TEXT = "The quick brown fox\njumps over the lazy dog."


class _Settings(NamedTuple):
    """The values of all controls that change the writing."""

    text: str
    handwriting: str
    style: PageStyle

    def code(self, method: str) -> str:
        arguments = "".join(f", {name}={value!r}" for name, value in self.style.items())
        return f"tk.handwriting.{method}({self.text!r}, {self.handwriting!r}{arguments})"


@checked_arguments
class HandwritingExplorer(ServiceWidget):
    """Write a text and see it in any hand while you change the parameters.

    The page is shown at its true scale, 72 pixels per inch. A file that cannot be rendered is not offered for download.

    Parameters
    ----------
    tk
        A connection.
    text, handwriting
        The initial text and hand.

    Attributes
    ----------
    result : Handwritten or None
        The picture on the screen.
    kept : Handwritten or None
        The earlier picture beside `result`, after a click on *Compare*.
    text, picker, look, kind, keep_button, drop_button
        The controls: set ``.value`` or call ``.click()``, as a person would; ``picker.handwriting`` is the hand,
        ``look.size``, ``look.line_spacing``, ``look.seed``, ... are the parameters, ``look.section`` is the open
        section of parameters; ``kind`` is ``png``, ``pdf``, ``svg`` or ``animation``.

    Examples
    --------
    >>> import toolkit
    >>> tk = toolkit.connect()
    >>> explorer = HandwritingExplorer(tk, text="Hello")
    >>> explorer.look.line_spacing.value = 3.0
    >>> explorer.code
    "tk.handwriting.png('Hello', 'Molly', line_spacing=3.0, random_seed=1)"
    >>> tk.close()
    """

    result = traitlets.Instance(Handwritten, allow_none=True)
    kept = traitlets.Instance(Handwritten, allow_none=True)

    def __init__(self, tk: ServiceConnection, *, text: str = _INITIAL_TEXT, handwriting: str = "Molly") -> None:
        self._client: HandwritingClient = service_of(tk, "handwriting")
        super().__init__()
        self._shown_settings: _Settings | None = None  # those of `result`
        self._kept_code = ""
        self._make_controls(text, handwriting)
        self._lay_out()
        with self.working("Loading the hands"):
            self.picker.load()
        if self.error is None:
            self._draw_text()
        self.text.observe(lambda _: self._draw_text(), "value")
        self.picker.observe(lambda _: self._draw(), "handwriting")
        self.kind.observe(lambda _: self._attempt(self._show_file), "value")

    def _make_controls(self, text: str, handwriting: str) -> None:
        layout = ipywidgets.Layout(width="auto", height="4.8em")
        self.text = ipywidgets.Textarea(text, placeholder="Write something", layout=layout)
        add_tip(self.text, "The text; Enter begins a line")
        self.look = StyleControls(self._draw)
        self.picker = HandPicker(self._client, handwriting, self._attempt)
        names = [("Animation" if kind == "animation" else kind.upper(), kind) for kind in _FILE_CHOICES]
        self.kind = ipywidgets.ToggleButtons(options=names, tooltips=[tip for _, tip in _FILE_CHOICES.values()])
        self.kind.style.button_width, self.kind.layout.width = "auto", "auto"
        words = "Keep this picture, to compare it with the next ones"
        self.keep_button = button("Compare", "columns", words, lambda: self._compare_with(self.result))
        words = "Remove the earlier picture"
        self.drop_button = button("Stop comparing", "times", words, lambda: self._compare_with(None))
        self.drop_button.layout.display = "none"
        self.paper, self.link, self.code_line = html_pane(), html_line(), html_pane()

    def _lay_out(self) -> None:
        self.paper.add_class("toolkit-desk")
        add_tip(self.paper, "The page at its true size").tabbable = True
        file_row = row(self.kind, self.link, self.keep_button, self.drop_button)
        main = ipywidgets.VBox((self.text, self.paper, self.status, file_row, self.code_line))
        look = self.look.add_class("toolkit-controls").add_class("toolkit-look")
        self.show(self.picker, self.beside(main.add_class("toolkit-main"), look))

    @property
    def code(self) -> str:
        """The line of Python code that renders `file`."""
        return self._settings.code(self.kind.value)

    @property
    def file(self) -> Handwritten:
        """The file of the chosen kind, with the present settings; raises an error if it cannot be rendered."""
        if self.result is not None and self.kind.value == "png" and self._shown_settings == self._settings:
            return self.result
        return self._render(self._settings, _FILE_CHOICES[self.kind.value][0])

    def picture(self) -> bytes:
        """Return the picture on the screen, and the kept one if there is one, as a PNG."""
        writings = [writing for writing in (self.kept, self.result) if writing is not None]
        if len(writings) == 2:
            return png_bytes(contact_sheet(writings, labels=["kept", "now"]).image())
        return png_bytes(writings[0].on_paper() if writings else Image.new("RGB", (8, 8), "white"))

    def summary(self) -> str:
        """Return one line about the picture on the screen."""
        shown = "nothing to show" if self.result is None else repr(self.result)[1:-1]
        return f"HandwritingExplorer: {shown}"

    def _attempt(self, work: Callable[[], None]) -> None:
        """Run `work`; after an error, the status line shows the error, and the last picture stays."""
        with self.working("Writing"):
            work()
            if self.result is None:
                self.say("")
            elif self._shown_settings != self._settings:
                self.say("The picture shows earlier settings: the present ones could not be rendered")
            else:
                self.say(_status_text(self.result))

    @in_turn
    def _draw_text(self) -> None:
        self._draw()
        if self.error is None:
            self._attempt(lambda: self.picker.show_text(self.text.value))

    def _draw(self) -> None:
        self._attempt(partial(self._show_file, draw=True))

    @property
    def _settings(self) -> _Settings:
        return _Settings(self.text.value, self.picker.handwriting, self.look.style)

    def _render(self, settings: _Settings, kind: FileKind) -> Handwritten:
        return renderer_of(self._client).render(settings.text, settings.handwriting, kind, settings.style)

    def _show_file(self, *, draw: bool = False) -> None:
        """If `draw`, render the present settings; then offer the file of the chosen kind, but none after an error."""
        self.link.layout.visibility = "hidden"  # a hidden link keeps its space: the buttons beside it do not move
        link = ""  # after an error, the link must not keep the previous file
        try:
            if draw:
                settings = self._settings
                self.result = self._render(settings, "png")
                self._shown_settings = settings
            if self._shown_settings is not None:
                self._show_code(self._shown_settings.code(self.kind.value))
                self._show_comparison()  # before `file`, which may raise an error
                link = self._link_to(self.file)
        finally:
            self.link.value = link
        self.link.layout.visibility = "visible"

    def _show_code(self, code: str) -> None:
        copy = "navigator.clipboard.writeText(this.dataset.code);this.textContent='Copied'"
        code = escape(code, quote=True)
        self.code_line.value = (
            f'<div class="toolkit-code"><button class="jupyter-button widget-button" data-code="{code}" '
            f'title="Copy the Python code of this picture" onclick="{copy}">Copy code</button> '
            f"<code>{code}</code></div>"
        )

    def _show_comparison(self, animation: Handwritten | None = None) -> None:
        """Show the picture, or its animation if given, beside the kept picture if there is one."""
        self.drop_button.layout.display = "none" if self.kept is None else ""
        if self.result is None or self._shown_settings is None:
            return
        label = f"{self._shown_settings.text[:200]} (in the hand of {self.result.handwriting})"
        picture = picture_html(self.result, label, animation)
        if self.kept is None:
            self.paper.value = picture
            return
        code = self._shown_settings.code(self.kind.value)
        cells = ((picture_html(self.kept, "The earlier picture"), self._kept_code), (picture, code))
        self.paper.value = '<div class="toolkit-compared">' + "".join(
            f"<figure>{image}<figcaption>{escape(code)}</figcaption></figure>" for image, code in cells
        ) + "</div>"  # fmt: skip

    def _link_to(self, file: Handwritten) -> str:
        """Return the download link of a file, as HTML; an animation is also played."""
        is_animation = file.kind == "replay"
        if is_animation:
            self._show_comparison(file)
        name = escape(f"{file.handwriting.lower()}{'-animation' * is_animation}{SUFFIXES[file.kind]}", quote=True)
        data = base64.b64encode(file.data).decode("ascii")
        return (
            f'<a download="{name}" href="data:{CONTENT_TYPES[file.kind]};base64,{data}" '
            f'title="{escape(_FILE_CHOICES[self.kind.value][1], quote=True)}">Download {name}</a> '
            f"({len(file.data) / 1000:.1f} KB)"
        )

    @in_turn
    def _compare_with(self, kept: Handwritten | None) -> None:
        if self._shown_settings is not None:
            self.kept, self._kept_code = kept, self._shown_settings.code(self.kind.value)
            self._show_comparison()


def _status_text(writing: Handwritten) -> str:
    cut = " · some ink is cut off" if writing.overflow else ""
    return (
        f"{writing.handwriting}: {writing.width:g} x {writing.height:g} px · {counted(writing.lines or 0, 'line')} · "
        f"ink {writing.ink_share or 0:.2%} · {writing.milliseconds:.0f} ms{cut}"
    )
