"""A control for every parameter of a rendering."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import ipywidgets

from toolkit.handwriting.client.page_layout import PAGES
from toolkit.handwriting.client.style import Style
from toolkit.handwriting.wire import ALIGNS, PAPERS, PENS
from toolkit.widget_family import button, check_box, in_turn, row, sized, text_field

_NO_PAGE = "width and height"
_LABEL, _WIDTH = "7.5em", "22em"
HUMAN_LINES, HUMAN_WORDS = 0.12, 0.3  # variances that a person's writing has at most


class StyleControls(ipywidgets.VBox):  # type: ignore[misc]
    """Sliders, ink and seed; `changed` is called after each change by a person or a program."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._is_rolling = False
        self.size = _slider("Size, px", 20, 4, 120, 1)
        self.line_spacing = _slider("Line spacing", 1.5, 0, 5, 0.05)
        self.line_variance = _slider("Line variance", 0, 0, 1, 0.01)
        self.word_variance = _slider("Word variance", 0, 0, 1, 0.01)
        self.width = _slider("Width, px", 504, 40, 1600, 4)
        self.height_auto = check_box("Height as the text needs", width="16em")
        self.height_auto.layout.margin = f"2px 2px 2px {_LABEL}"
        self.height = _slider("Height, px", 360, 20, 1600, 4)
        self.page, self.align = _choice("Page", (_NO_PAGE, *PAGES)), _choice("Align", ALIGNS)
        self.margin = _slider("Margin, px", 0, 0, 200, 1)
        self.padding = _slider("Padding, px", 0, 0, 200, 1)
        picker = ipywidgets.ColorPicker(value="#000000", description="Ink")
        self.colour = sized(picker, _WIDTH, label=_LABEL)
        self.inks = text_field("or CMYK", "(1, 0.5, 0, 0.2)", width=_WIDTH, label=_LABEL)
        self.pen, self.paper = _choice("Pen", PENS), _choice("Paper", PAPERS)
        self.natural = check_box("Vary as a person does", value=False, width="16em")
        self.natural.layout.margin = f"2px 2px 2px {_LABEL}"
        self.corrections = _slider("Corrections", 0, 0, 1, 0.01)
        number = ipywidgets.BoundedIntText(1, min=1, max=2**53, description="Seed")
        self.seed = sized(number, "13em", label=_LABEL)
        self.seed_locked = check_box("keep", width="5em")
        self.reroll_button = button("Again", "refresh", "Write it again, differently")
        self._parameters = {
            "handwriting_size": self.size, "handwriting_color": self.colour, "width": self.width,
            "height": self.height, "page": self.page, "margin": self.margin, "align": self.align,
            "min_padding": self.padding, "line_spacing": self.line_spacing,
            "line_spacing_variance": self.line_variance, "word_spacing_variance": self.word_variance,
            "pen": self.pen, "natural": self.natural, "paper": self.paper, "corrections": self.corrections,
        }  # fmt: skip
        self._defaults = {name: control.value for name, control in self._parameters.items()}
        for control, most in ((self.line_variance, HUMAN_LINES), (self.word_variance, HUMAN_WORDS)):
            control.tooltip = f"Up to {most:g} (green) looks as a person writes"
            ipywidgets.dlink((control, "value"), (control.style, "handle_color"), _green_up_to(most))
        for free in (self.height_auto, self.page):
            free.observe(lambda _: self._enable_sides(), "value")
        self._enable_sides()
        controls = (
            self.size, self.line_spacing, self.line_variance, self.word_variance, self.width, self.height_auto,
            self.height, self.page, self.margin, self.align, self.padding, self.colour, self.inks,
            self.pen, self.natural, self.paper, self.corrections,
        )  # fmt: skip
        seed_row = row(self.seed, self.seed_locked, self.reroll_button)
        super().__init__((*controls, seed_row), layout=ipywidgets.Layout(overflow="visible"))
        for control in (*controls, self.seed):
            control.observe(self._on_change, "value")
        self.reroll_button.on_click(lambda _: self._reroll())

    @property
    def style(self) -> Style:
        """Return the parameters that differ from the service's defaults, and the seed."""
        values = {name: control.value for name, control in self._parameters.items()}
        given: dict[str, Any] = {name: value for name, value in values.items() if value != self._defaults[name]}
        if "page" in given:
            given = {name: value for name, value in given.items() if name not in ("width", "height")}
        elif self.height_auto.value:
            given["height"] = "auto"
        if inks := self.inks.value.strip():
            given["handwriting_color"] = inks
        return Style(**given, random_seed=self.seed.value)

    def _enable_sides(self) -> None:
        has_page = self.page.value != _NO_PAGE
        self.width.disabled = self.height_auto.disabled = has_page
        self.height.disabled = has_page or self.height_auto.value

    @in_turn
    def _on_change(self, change: dict[str, Any]) -> None:
        if self._is_rolling:
            return
        if not self.seed_locked.value and change["owner"] is not self.seed:
            self._roll()
        self._changed()

    @in_turn
    def _reroll(self) -> None:
        self._roll()
        self._changed()

    def _roll(self) -> None:
        self._is_rolling = True
        self.seed.value = 1 + secrets.randbelow(999_999)  # short, so that a person can write it down
        self._is_rolling = False


def _choice(description: str, options: Sequence[str]) -> ipywidgets.Widget:
    return sized(ipywidgets.Dropdown(options=options, description=description), _WIDTH, label=_LABEL)


def _slider(description: str, value: float, least: float, most: float, step: float) -> ipywidgets.Widget:
    kind = ipywidgets.IntSlider if isinstance(step, int) else ipywidgets.FloatSlider
    return sized(kind(value, min=least, max=most, step=step, description=description), _WIDTH, label=_LABEL)


def _green_up_to(most: float) -> Callable[[float], str | None]:
    return lambda value: "#7cb342" if value <= most else None
