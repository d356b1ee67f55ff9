"""HandwritingExplorer: compose a letter or a picture, choose a hand, turn pages, compare, download, copy the code."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

import ipywidgets
import traitlets
from PIL import Image

from toolkit.argument_checks import checked_arguments
from toolkit.errors import InvalidArgument, InvalidParameters, counted
from toolkit.handwriting.client.handwriting import HandwritingClient, renderer_of
from toolkit.handwriting.client.style import PageStyle, Style, letter_style
from toolkit.handwriting.client.sweeping import contact_sheet
from toolkit.handwriting.handwritten import SUFFIXES, Handwritten, opaque_png, png_bytes
from toolkit.handwriting.widgets.desk import SCREEN_DPI, Settings, Sheet, desk_html
from toolkit.handwriting.widgets.hand_picker import HandPicker
from toolkit.handwriting.widgets.style_controls import StyleControls
from toolkit.handwriting.wire import FileKind
from toolkit.widgets.base import (
    ServiceWidget,
    button,
    code_html,
    column,
    copy_button,
    html_pane,
    in_turn,
    label,
    line,
    make,
    row,
    service_of,
    set_visible,
    toggle_buttons,
)

if TYPE_CHECKING:
    from toolkit.widgets.base import ServiceConnection

#: The kinds of files of a picture, by the name of the client method: the kind on the wire, and the tooltip.
_PICTURE_KINDS: dict[str, tuple[FileKind, str]] = {
    "png": ("png", "A picture, transparent without paper, 72 pixels per inch"),
    "pdf": ("pdf", "A document to print, whose words can be searched"),
    "svg": ("svg", "A drawing that is sharp at every size"),
    "animation": ("replay", "An SVG that shows how the text is written"),
}
_LETTER_KINDS: dict[str, tuple[FileKind, str]] = {
    "pdf": ("pdf", "All pages in one document to print, whose words can be searched"),
    "png": ("png", "A picture of this page, 144 pixels per inch"),
}
#: Pixels per inch of the file of a page.
_FILE_DPI = 144
_INITIAL_TEXT = """\
Dear Ada,

Thank you for your letter. The engine works: yesterday it wove its first pattern, as the loom weaves flowers and leaves.

Come and see it soon.

Yours, Charles"""


@checked_arguments
class HandwritingExplorer(ServiceWidget):
    """Write a letter and see it in any hand, on paper, while you change how it is written.

    A letter has as many pages as it needs, to turn; with *Page*, write one picture instead. *Compare* keeps what is
    shown beside what you change next, at one scale.

    Parameters
    ----------
    tk
        A connection.
    text, handwriting
        The initial text and hand.

    Attributes
    ----------
    result, kept, page_number
        The picture on the screen, the earlier one beside it after a click on *Compare*, and the page of a letter that
        is shown, from 1.
    text, picker, look, kind, fit, previous_button, next_button, keep_button, drop_button, download_button, copy_button
        The controls: set ``.value`` or call ``.click()``, as a person would; ``picker.handwriting`` is the hand,
        ``look.size``, ``look.page``, ``look.seed``, ... are the parameters, ``look.section`` is the open
        section of parameters; ``kind`` is ``pdf`` or ``png``, of a picture also ``svg`` or ``animation``.

    Examples
    --------
    >>> import toolkit
    >>> tk = toolkit.connect()
    >>> explorer = HandwritingExplorer(tk, text="Hello")
    >>> explorer.look.pen.value = "felt"
    >>> explorer.code[:54]
    "tk.handwriting.letter('Hello', 'Molly', handwriting_co"
    >>> tk.close()
    """

    result = traitlets.Instance(Handwritten, allow_none=True)
    kept = traitlets.Instance(Handwritten, allow_none=True)
    page_number = traitlets.Int(1)

    def __init__(self, tk: ServiceConnection, *, text: str = _INITIAL_TEXT, handwriting: str = "Molly") -> None:
        self._client: HandwritingClient = service_of(tk, "handwriting")
        super().__init__()
        self._shown: Settings | None = None  # the settings of `result`
        self._kept: Settings | None = None
        self._make_controls(text, handwriting)
        self._lay_out()
        with self.working("Loading the hands"):
            self.picker.load()
        if self.error is None:
            self._draw_text()
        self.text.observe(lambda _: self._draw_text(), "value")
        self.picker.observe(lambda _: self._draw(), "handwriting")
        # The value is None for a moment when the options change.
        self.kind.observe(lambda change: self._attempt(self._show) if change["new"] else None, "value")
        self.fit.observe(lambda _: self._attempt(self._show), "value")

    def _make_controls(self, text: str, handwriting: str) -> None:
        words = "The text; Enter begins a line"
        self.text = make(ipywidgets.Textarea, height="9em", tip=words, value=text, placeholder="Write something")
        self.look = StyleControls(self._draw)
        self.picker = HandPicker(self._client, handwriting, self._attempt)
        self.kind = toggle_buttons({}, width="auto")
        self._offer_kinds()
        self.previous_button = button("", "chevron-left", "The page before", lambda: self._turn(-1))
        self.next_button = button("", "chevron-right", "The next page", lambda: self._turn(1))
        self.place = label()
        self._pager = line(self.previous_button, self.place, self.next_button)
        words = "On: as large as there is room. Off: true size, to scroll"
        self.fit = make(ipywidgets.ToggleButton, "Whole page", icon="compress", tip=words, value=True)
        words = "Keep this writing beside the next ones, at one scale"
        self.keep_button = button("Compare", "columns", words, self._keep)
        self.drop_button = button("Stop comparing", "times", "Remove the earlier writing", self._drop)
        self.download_button = button("Download", "download", "Let the browser download this file", self._download)
        self.copy_button = copy_button(lambda: self.code, self)
        self.paper, self.code_line = html_pane(), html_pane()

    def _lay_out(self) -> None:
        self.paper.add_class("toolkit-desk")
        self.paper.tooltip, self.paper.tabbable = "What is written", True
        view_row = row(self._pager, self.fit, self.keep_button, self.drop_button)
        file_row = row(self.kind, self.download_button, self.copy_button)
        main = column(self.paper, view_row, self.status, file_row, self.code_line)
        look = column(self.text, self.look.add_class("toolkit-look"))
        self.show(self.picker, self.beside(look.add_class("toolkit-controls"), main.add_class("toolkit-main")))

    @property
    def code(self) -> str:
        """The line of Python code that writes `file`."""
        return self._settings.code(self.kind.value, self.page_number)

    @property
    def file(self) -> Handwritten:
        """The file of the chosen kind, with the present settings; raises an error if it cannot be rendered."""
        settings = self._settings
        if self.result is not None and not settings.is_letter and self.kind.value == "png" and self._shown == settings:
            return self.result
        return self._render(settings, self._kinds[self.kind.value][0], self.page_number, _FILE_DPI)

    def picture(self) -> bytes:
        """Return the picture on the screen, and the kept one if there is one, as a PNG."""
        writings = [sheet.writing for sheet in self._sheets]
        if len(writings) == 2:
            return png_bytes(contact_sheet(writings, labels=["kept", "now"]).image())
        return opaque_png(writings[0].data) if writings else png_bytes(Image.new("RGB", (8, 8), "white"))

    def summary(self) -> str:
        """Return one line about what is on the screen."""
        shown = "nothing to show" if self.result is None else repr(self.result)[1:-1]
        return f"HandwritingExplorer: {shown}"

    @property
    def _settings(self) -> Settings:
        return Settings(self.text.value, self.picker.handwriting, self.look.style)

    @property
    def _sheets(self) -> list[Sheet]:
        """The pictures on the desk: the earlier one, if there is one, and the present one."""
        pairs = (self.kept, self._kept), (self.result, self._shown)
        return [Sheet(writing, settings) for writing, settings in pairs if writing is not None and settings is not None]

    @property
    def _kinds(self) -> dict[str, tuple[FileKind, str]]:
        return _LETTER_KINDS if self.look.is_letter else _PICTURE_KINDS

    def _attempt(self, work: Callable[[], None]) -> None:
        """Run `work`; after an error, the status line shows it, and the last picture stays, dimmed."""
        with self.working("Writing"):
            work()
            self.say("" if self.result is None else self._status_text(self.result))

    @in_turn
    def _draw_text(self) -> None:
        self._draw()
        if self.error is None:
            self.picker.show_text(self.text.value)

    def _draw(self) -> None:
        self._attempt(self._write)
        self._mark(_fields_of(self.error, ("text", "handwriting")))

    def _write(self) -> None:
        self._offer_kinds()
        settings = self._settings
        self.result = self._render_page(settings, self.page_number)
        self._shown = settings
        self.page_number = min(self.page_number, self.result.pages)
        self._show()

    def _render_page(self, settings: Settings, page: int) -> Handwritten:
        """Render a page for the screen; the last one if there are fewer now."""
        try:
            return self._render(settings, "png", page, SCREEN_DPI)
        except InvalidParameters as error:
            if page == 1 or "page_number" not in _fields_of(error, ()):
                raise
        last = self._render(settings, "png", 1, SCREEN_DPI)
        return self._render(settings, "png", last.pages, SCREEN_DPI) if last.pages > 1 else last

    def _render(self, settings: Settings, kind: FileKind, page: int, dpi: int) -> Handwritten:
        renderer, (text, hand, style) = renderer_of(self._client), settings
        if not settings.is_letter:
            return renderer.render(text, hand, kind, cast("PageStyle", style))
        options = cast("Style", {name: value for name, value in style.items() if name in Style.__annotations__})
        letter = letter_style(None, options, style["page"], style["random_seed"])
        return renderer.render_letter(text, hand, kind, letter, page_number=page, dpi=dpi)

    @in_turn
    def _turn(self, step: int) -> None:
        if self.result is not None:
            self._attempt(partial(self._turn_to, self.page_number + step))

    def _turn_to(self, page: int) -> None:
        """Show another page of what is on the desk, also of the earlier writing."""
        self.page_number = min(max(1, page), self._most_pages)
        *earlier, self.result = [self._render_page(sheet.settings, self.page_number) for sheet in self._sheets]
        self.kept = next(iter(earlier), None)
        self._show()

    @property
    def _most_pages(self) -> int:
        return max(sheet.writing.pages for sheet in self._sheets)

    def _offer_kinds(self) -> None:
        names = [("Animation" if kind == "animation" else kind.upper(), kind) for kind in self._kinds]
        if tuple(self.kind.options) != tuple(names):
            before = self.kind.value
            self.kind.options, self.kind.tooltips = names, [tip for _, tip in self._kinds.values()]
            self.kind.value = before if before in self._kinds else names[0][1]

    def _show(self) -> None:
        sheets = self._sheets
        if not sheets:
            return
        most = self._most_pages
        set_visible(self._pager, most > 1)
        self.previous_button.disabled, self.next_button.disabled = self.page_number == 1, self.page_number == most
        self.place.value = f"page {self.page_number} of {most}"
        set_visible(self.drop_button, self.kept is not None)
        self.code_line.value = code_html(sheets[-1].settings.code(self.kind.value, self.page_number))
        moving = self.file if self.kind.value == "animation" else None
        self.paper.value = desk_html(sheets, moving, is_whole=self.fit.value)

    def _status_text(self, writing: Handwritten) -> str:
        if self._shown != self._settings:
            return "This is the earlier writing: the present settings could not be written."
        cut = f" · cut off from {writing.cut!r} on" if writing.overflow and writing.cut else ""
        cut = cut or " · some ink is cut off" * writing.overflow
        size = str(self.look.page.value) or f"{writing.width:g} x {writing.height:g} px"
        pages = f" · {counted(writing.pages, 'page')}" if self.look.is_letter else ""
        return f"{writing.handwriting}: {size}{pages} · {counted(writing.lines or 0, 'line')}{cut}"

    def _mark(self, fields: Collection[str]) -> None:
        """Mark the controls of wrong fields; dim a picture that does not show the present settings."""
        controls = {"text": self.text, "handwriting": self.picker.name, **self.look.parameters}
        controls["handwriting_color"] = self.look.inks
        for name, control in controls.items():
            (control.add_class if name in fields else control.remove_class)("toolkit-wrong")
        is_earlier = self._shown is not None and self._shown != self._settings
        (self.paper.add_class if is_earlier else self.paper.remove_class)("toolkit-earlier")

    @in_turn
    def _keep(self) -> None:
        self.kept, self._kept = self.result, self._shown
        self._attempt(self._show)

    @in_turn
    def _drop(self) -> None:
        self.kept = self._kept = None
        self._attempt(self._show)

    def _download(self) -> None:
        with self.working("Writing the file"):
            file = self.file
            moving = "-animation" if file.kind == "replay" else ""
            page = f"-page-{self.page_number}" if self.look.is_letter and file.kind == "png" else ""
            name = f"{file.handwriting.lower()}{moving}{page}{SUFFIXES[file.kind]}"
            self.browser.download(name, file.data)
            self.say(f"The browser downloads {name}, {len(file.data) / 1000:,.1f} KB.")


def _fields_of(error: Exception | None, fields: Iterable[str]) -> set[str]:
    """Return the fields that an error is about: the service names them; errors of the client have them as a word."""
    if isinstance(error, InvalidParameters):
        return {problem.field for problem in error.problems if problem.field is not None}
    return set(re.findall(r"\w+", str(error))).intersection(fields) if isinstance(error, InvalidArgument) else set()
