"""The desk of the handwriting explorer: one page or picture, or two side by side at one scale."""

import base64
from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple, Self

from toolkit.handwriting.handwritten import Handwritten, choose_background
from toolkit.handwriting.wire import CONTENT_TYPES

#: Pixels per inch of a page of a letter on the screen; a picture has 72.
SCREEN_DPI = 96
_CAPTION_PIXELS = 36


class Settings(NamedTuple):
    """The values of all controls that change the writing."""

    text: str
    handwriting: str
    style: dict[str, Any]

    @property
    def is_letter(self) -> bool:
        return "page" in self.style

    def code(self, kind: str, page: int) -> str:
        """Return the line of Python code that writes a file of this kind; of a letter as a PNG, only this page."""
        arguments = "".join(f", {name}={value!r}" for name, value in self.style.items())
        call = f"({self.text!r}, {self.handwriting!r}{arguments})"
        if not self.is_letter:
            return f"tk.handwriting.{kind}{call}"
        return f"tk.handwriting.letter{call}" + (f".picture({page})" if kind == "png" else "")

    def caption(self, other: Self) -> str:
        differing = [f"{name} {value}" for name, value in self.style.items() if other.style.get(name) != value]
        return ", ".join([self.handwriting, *differing])


class Sheet(NamedTuple):
    """A picture on the desk, and the settings that it shows."""

    writing: Handwritten
    settings: Settings

    @property
    def size(self) -> tuple[float, float]:
        """Width and height at true scale, in pixels of 72 per inch."""
        scale = 72 / SCREEN_DPI if self.settings.is_letter else 1
        return self.writing.width * scale, self.writing.height * scale


def desk_html(sheets: Sequence[Sheet], moving: Handwritten | None, *, is_whole: bool) -> str:
    """Return the pictures side by side at one scale: the true one, or one at which all of them fit on the desk."""
    width, height = sum(sheet.size[0] for sheet in sheets), max(sheet.size[1] for sheet in sheets)
    caption = _CAPTION_PIXELS if len(sheets) > 1 else 0
    room = f"(100cqw - {16 * len(sheets)}px) / {width:g}, (100cqh - {8 + caption}px) / {height:g}"
    scale = f"min(1px, {room})" if is_whole else "1px"
    figures = []
    for index, sheet in enumerate(sheets):
        label = "The earlier writing" if index < len(sheets) - 1 else sheet.settings.text[:200]
        shown = moving if moving is not None and index == len(sheets) - 1 else sheet.writing
        words = sheet.settings.caption(sheets[1 - index].settings) if len(sheets) > 1 else ""
        figures.append(
            f"<figure>{_picture_html(sheet, shown, label, scale)}<figcaption>{escape(words)}</figcaption></figure>"
        )
    return f'<div class="toolkit-sheets{" toolkit-whole" * is_whole}">{"".join(figures)}</div>'


def _picture_html(sheet: Sheet, shown: Handwritten, label: str, scale: str) -> str:
    width, height = (f"calc({side:g} * {scale})" for side in sheet.size)
    data = base64.b64encode(shown.data).decode("ascii")
    alt = escape(f"{label} (in the hand of {sheet.writing.handwriting})", quote=True)
    background = choose_background(sheet.writing.image())
    return (
        f'<img class="toolkit-sheet" alt="{alt}" style="width:{width};height:{height};background:{background}" '
        f'src="data:{CONTENT_TYPES[shown.kind]};base64,{data}">'
    )
