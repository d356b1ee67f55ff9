"""A control for every parameter of a rendering: of a letter on pages, or of one picture."""

import itertools
import secrets
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets
from PIL import ImageColor

from toolkit.handwriting.client.style import LETTER_DEFAULTS, PAGE_SIZES, PRESETS
from toolkit.handwriting.wire import ALIGNS, MISSING_CHOICES, PAPERS, PENS
from toolkit.widgets.base import button, check_box, in_turn, make, shared, slider, toggle_buttons

_LABEL_WIDTH = "5.2em"
_NO_PAGE = "one picture, as large as below"
#: The values of the controls that are the defaults of a letter, and of a picture; 57 px are 2 cm.
_LETTER_DEFAULTS = {**LETTER_DEFAULTS, "page": "A4", "margin": 57}
_PICTURE_DEFAULTS = {"handwriting_size": 20, "margin": 0, "natural": False}


class StyleControls(ipywidgets.VBox):  # type: ignore[misc]
    """Sections of controls; only one section is open. `on_change` is called after a change by a person or a program.

    It begins with a letter, written as in ``PRESETS["letter"]``.
    """

    def __init__(self, on_change: Callable[[], None]) -> None:
        self._notify = on_change
        self._is_setting = False
        self._make_controls()
        #: The control of each parameter.
        self.parameters = {
            "handwriting_size": self.size, "handwriting_color": self.colour, "page": self.page, "width": self.width,
            "height": self.height, "min_padding": self.padding, "line_spacing": self.line_spacing,
            "line_spacing_variance": self.line_variance, "word_spacing_variance": self.word_variance,
            "random_seed": self.seed, "pen": self.pen, "natural": self.natural, "paper": self.paper,
            "margin": self.margin, "align": self.align, "missing": self.missing,
        }  # fmt: skip
        self._defaults = {name: control.value for name, control in self.parameters.items()}
        preset = {**PRESETS["letter"], **_LETTER_DEFAULTS}
        self.inks.value = str(preset.pop("handwriting_color"))
        for name, value in preset.items():
            self.parameters[name].value = value
        self._lay_out()
        self.page.observe(self._change_page, "value")
        for control in (*self.parameters.values(), self.height_auto, self.inks):
            control.observe(self._on_change, "value")
        self.section.observe(lambda _: self._open_section(), "value")

    def _make_controls(self) -> None:
        self.size = slider("Size, px", 20, 4, 120, 1, "Height of a capital letter above the line")
        self.line_spacing = slider("Line spacing", 1.5, 0, 5, 0.05, "From line to line, as a multiple of the size")
        self.line_variance = slider("Line variance", 0, 0, 1, 0.01, "Largest relative change; a person's is up to 0.12")
        self.word_variance = slider("Word variance", 0, 0, 1, 0.01, "Largest relative change; a person's is up to 0.3")
        tip = "The same seed gives the same writing, in every kind of file"
        self.seed = make(ipywidgets.BoundedIntText, "Seed", label=_LABEL_WIDTH, tip=tip, value=1, min=1, max=2**53)
        self.missing = _dropdown("Missing", MISSING_CHOICES, "What happens to characters that no hand has")
        self.reroll_button = button("Again", "refresh", "Write it again with another seed", self._take_another_seed)

        sizes = [*PAGE_SIZES, (_NO_PAGE, "")]
        pages = [(f"letter, {size}", size) if isinstance(size, str) else size for size in sizes]
        tip = "A letter on as many pages as it needs, or one picture"
        self.page = _dropdown("Page", pages, tip)
        self.page.value = ""
        self.width = slider("Width, px", 504, 40, 1600, 4, "72 px are an inch")
        self.height_auto = check_box("Height as the text needs", tip="Off: choose the height below")
        self.height = slider("Height, px", 360, 20, 1600, 4, "72 px are an inch; ink that does not fit is cut off")
        self.margin = slider("Margin, px", 0, 0, 200, 1, "Empty space on all sides; not with padding")
        self.align = _dropdown("Align", ALIGNS, "Where the text is between top and bottom; not with padding")
        self.padding = slider("Padding, px", 0, 0, 200, 1, "Centre the text, at least this far from the edges")

        tip = "The name of a colour, or #1b3a8a, or for print cyan, magenta, yellow and black from 0 to 1"
        names: dict[str, Any] = {"placeholder": "navy or (1, 0.5, 0, 0.2)", "options": tuple(ImageColor.colormap)}
        self.inks = make(ipywidgets.Combobox, "Ink", label=_LABEL_WIDTH, tip=tip, continuous_update=False, **names)
        tip = "The colour if the field above is empty"
        # Concise: without the text field of the picker, which ignores Enter in JupyterLab.
        self.colour = make(
            ipywidgets.ColorPicker, "or choose", label=_LABEL_WIDTH, tip=tip, value="#000000", concise=True
        )
        self.pen = _dropdown("Pen", PENS, "The kind of pen; except with plain, the ink varies with speed and pressure")
        self.paper = _dropdown("Paper", PAPERS, "The background; none is transparent")
        tip = "Forms of letters, joins, gaps, margins and the slope of lines"
        self.natural = check_box("Vary as a person does", value=False, tip=tip)

    def _lay_out(self) -> None:
        #: The controls that a letter does not have.
        self._of_pictures = (self.width, self.height_auto, self.height, self.padding)
        self._sections = {
            "Writing": (
                self.size, self.line_spacing, self.line_variance, self.word_variance, self.missing, self.seed,
                self.reroll_button,
            ),
            "Page": (
                self.page, self.margin, self.align, self.width, self.height_auto, self.height, self.padding,
            ),
            "Ink": (self.pen, self.paper, self.natural, self.inks, self.colour),
        }  # fmt: skip
        tooltips = ["Size, spacing and seed", "Letter or picture, sides and margin", "Colour, pen and paper"]
        self.section = toggle_buttons(dict(zip(self._sections, tooltips, strict=True)))
        self.parts = [self.section, *itertools.chain(*self._sections.values())]
        super().__init__(layout=shared(ipywidgets.Layout))
        for control in (self.height_auto, self.margin, self.align, self.padding, self.inks, self.page):
            control.observe(lambda _: self._enable(), "value")
        self._enable()
        self._open_section()

    def _open_section(self) -> None:
        hidden = self._of_pictures if self.is_letter else ()
        opened = self._sections[self.section.value]
        self.children = self.section, *(control for control in opened if control not in hidden)

    @property
    def is_letter(self) -> bool:
        return bool(self.page.value)

    @property
    def style(self) -> dict[str, Any]:
        """The parameters that differ from the defaults of the client's method, and always the seed and the page."""
        values = {name: control.value for name, control in self.parameters.items()}
        values["handwriting_color"] = self.inks.value.strip() or values["handwriting_color"]
        values["height"] = "auto" if self.height_auto.value else values["height"]
        defaults = self._defaults | {"height": "auto"} | (_LETTER_DEFAULTS if self.is_letter else _PICTURE_DEFAULTS)
        always = ("page", "random_seed") if self.is_letter else ("random_seed",)
        unknown = ("width", "height", "min_padding") if self.is_letter else ("page",)
        return {
            name: value
            for name, value in values.items()
            if name not in unknown and (name in always or value != defaults[name])
        }

    def _change_page(self, change: dict[str, Any]) -> None:
        """Set the other defaults of a letter, or of a picture, where a person has not chosen something else."""
        if bool(change["old"]) != bool(change["new"]):
            defaults = _PICTURE_DEFAULTS, _LETTER_DEFAULTS
            before, now = defaults if change["new"] else defaults[::-1]
            self._is_setting = True  # all of these are one change, of which the page notifies
            for name in ("handwriting_size", "margin"):
                if self.parameters[name].value == before[name]:
                    self.parameters[name].value = now[name]
            self._is_setting = False
        self._open_section()

    def _enable(self) -> None:
        is_centred = self.padding.value > 0 and not self.is_letter
        self.height.disabled = self.height_auto.value
        self.colour.disabled = bool(self.inks.value.strip())
        self.margin.disabled = self.align.disabled = is_centred
        self.padding.disabled = not is_centred and (self.margin.value > 0 or self.align.value != self.align.options[0])

    @in_turn
    def _on_change(self, _change: object) -> None:
        if not self._is_setting:
            self._notify()

    def _take_another_seed(self) -> None:
        self.seed.value = 1 + secrets.randbelow(999_999)  # short, so that a person can write it down


def _dropdown(description: str, options: Sequence[Any], tooltip: str) -> ipywidgets.Widget:
    return make(ipywidgets.Dropdown, description, label=_LABEL_WIDTH, tip=tooltip, options=options)
