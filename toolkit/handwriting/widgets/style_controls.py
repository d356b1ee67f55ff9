"""A control for every parameter of a rendering."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import ipywidgets

from toolkit.handwriting.client.style import Style
from toolkit.widget_family import button, check_box, in_turn, row, sized, text_field

_LABEL, _WIDTH = "7.5em", "22em"


class StyleControls(ipywidgets.VBox):  # type: ignore[misc]
    """Sliders, ink and seed.

    Parameters
    ----------
    changed
        Called after each change that a person or a program makes.

    Attributes
    ----------
    size, width, height, height_auto, padding, line_spacing, line_variance, word_variance, colour, inks, seed, \
seed_locked, reroll_button
        The controls: set ``.value`` or ``.click()`` as a person would.
    """

    def __init__(self, changed: Callable[[], None]) -> None:
        self._changed = changed
        self._quiet = False
        self.size = _slider("Size, px", 20, 4, 120, 1)
        self.width = _slider("Width, px", 504, 40, 1600, 4)
        self.height = _slider("Height, px", 360, 20, 1600, 4)
        self.height_auto = check_box("Height as the text needs", width="16em")
        self.height_auto.layout.margin = f"2px 2px 2px {_LABEL}"
        self.padding = _slider("Margin, px", 0, 0, 200, 1)
        self.line_spacing = _slider("Line spacing", 1.5, 0, 5, 0.05)
        self.line_variance = _slider("Line variance", 0, 0, 1, 0.01)
        self.word_variance = _slider("Word variance", 0, 0, 1, 0.01)
        picker = ipywidgets.ColorPicker(value="#000000", description="Ink")
        self.colour = sized(picker, _WIDTH, label=_LABEL)
        self.inks = text_field("or CMYK", "(1, 0.5, 0, 0.2)", width=_WIDTH, label=_LABEL)
        number = ipywidgets.BoundedIntText(1, min=1, max=2**53, description="Seed")
        self.seed = sized(number, "13em", label=_LABEL)
        self.seed_locked = check_box("keep", width="5em")
        self.reroll_button = button("Again", "refresh", "Write it again, differently")
        super().__init__(layout=ipywidgets.Layout(overflow="visible"))
        self._lay_out()
        self._follow()

    @property
    def style(self) -> Style:
        """What the controls say; a parameter that is as the service would have it is None."""
        return Style(
            handwriting_size=_unless(self.size.value, 20),
            handwriting_color=self.inks.value.strip() or _unless(self.colour.value, "#000000"),
            width=_unless(self.width.value, 504),
            height="auto" if self.height_auto.value else _unless(self.height.value, 360),
            min_padding=_unless(self.padding.value, 0),
            line_spacing=_unless(self.line_spacing.value, 1.5),
            line_spacing_variance=_unless(self.line_variance.value, 0.0),
            word_spacing_variance=_unless(self.word_variance.value, 0.0),
            random_seed=self.seed.value,
        )

    def _lay_out(self) -> None:
        self.children = (
            self.size,
            self.line_spacing,
            self.line_variance,
            self.word_variance,
            self.width,
            self.height_auto,
            self.height,
            self.padding,
            self.colour,
            self.inks,
            row(self.seed, self.seed_locked, self.reroll_button),
        )
        self._grey_out()

    def _follow(self) -> None:
        controls = (self.size, self.width, self.height, self.height_auto, self.padding, self.line_spacing,
                    self.line_variance, self.word_variance, self.colour, self.inks, self.seed)  # fmt: skip
        for control in controls:
            control.observe(self._on_change, "value")
        self.reroll_button.on_click(lambda _: self._reroll())

    @in_turn
    def _on_change(self, change: dict[str, Any]) -> None:
        if self._quiet:
            return
        self._grey_out()
        if not self.seed_locked.value and change["owner"] is not self.seed:
            with self._quietly():
                self.seed.value = _fresh_seed()
        self._changed()

    @in_turn
    def _reroll(self) -> None:
        with self._quietly():
            self.seed.value = _fresh_seed()
        self._changed()

    def _grey_out(self) -> None:
        self.height.disabled = self.height_auto.value

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        self._quiet = True
        try:
            yield
        finally:
            self._quiet = False


def _slider(description: str, value: float, least: float, most: float, step: float) -> ipywidgets.Widget:
    kind = ipywidgets.IntSlider if isinstance(step, int) else ipywidgets.FloatSlider
    return sized(kind(value, min=least, max=most, step=step, description=description), _WIDTH, label=_LABEL)


def _unless(value: Any, default: Any) -> Any:  # noqa: ANN401
    return None if value == default else value


def _fresh_seed() -> int:
    # Short, so that a person can write it down.
    return 1 + secrets.randbelow(999_999)
