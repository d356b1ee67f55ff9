"""Choose a hand by looking: small pictures of the text, a page of hands at a time."""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import partial
from html import escape

import ipywidgets
import pandas as pd
import traitlets

from toolkit.handwriting.client.handwriting import HandwritingClient
from toolkit.handwriting.client.style import Style
from toolkit.handwriting.handwritten import Handwritten
from toolkit.handwriting.wire import RATINGS
from toolkit.widget_family import button, row, sized

PAGE = 6
_CHARACTERS = 12
_WIDTH = 116  # pixels
_PICTURE_STYLE = Style(handwriting_size=14, width=_WIDTH, height=38, random_seed=1)
_ORDERS = {
    "by title": ("title", True),
    **{f"by {name.removeprefix('rating_').replace('_', ' ')}": (name, False) for name in RATINGS},
}


class HandPicker(ipywidgets.VBox):  # type: ignore[misc]
    """A field for the title, and a page of hands. `attempt` runs the action of a click and shows its error.

    ``handwriting`` is the title of the chosen hand, ``cards`` are the buttons under the pictures.
    """

    handwriting = traitlets.Unicode("")

    def __init__(
        self, client: HandwritingClient, handwriting: str, attempt: Callable[[Callable[[], None]], None]
    ) -> None:
        self._client = client
        self._attempt = attempt
        self._listing = pd.DataFrame({"title": pd.Series(dtype="str")})
        self._snippet, self._first = "", 0
        self.name = sized(ipywidgets.Combobox(description="Hand", continuous_update=False), "17em", label="3em")
        self.order = sized(ipywidgets.Dropdown(options=list(_ORDERS), description="Sorted"), "17em")
        self.back_button = button("", "arrow-left", "Hands before these")
        self.on_button = button("", "arrow-right", "More hands")
        self.pictures = [ipywidgets.HTML(layout=ipywidgets.Layout(height="44px")) for _ in range(PAGE)]
        self.cards = [ipywidgets.Button(layout=ipywidgets.Layout(width=f"{_WIDTH}px")) for _ in range(PAGE)]
        super().__init__(layout=ipywidgets.Layout(overflow="visible"))
        cells = [ipywidgets.VBox(pair) for pair in zip(self.pictures, self.cards, strict=True)]
        self.children = (row(self.name, self.order, self.back_button, self.on_button), row(*cells))
        self.handwriting = handwriting
        self.observe(lambda _: self._attempt(self._turn_to_chosen), "handwriting")
        self.name.observe(self._on_name, "value")
        self.order.observe(lambda _: self._attempt(self._sort), "value")
        self.back_button.on_click(lambda _: self._attempt(partial(self._turn, -PAGE)))
        self.on_button.on_click(lambda _: self._attempt(partial(self._turn, PAGE)))
        for card in self.cards:
            card.on_click(lambda clicked: self.set_trait("handwriting", clicked.description))

    def load(self) -> None:
        """Read the listing, and show the page with the chosen hand."""
        self._listing = self._client.available(order_by="title")
        self.name.options = tuple(self._listing["title"])
        self.handwriting = str(self._client.hand(self.handwriting)["title"].iloc[0])
        self._turn_to_chosen()

    def show_text(self, text: str) -> None:
        """Write the beginning of `text` in all pictures of the page."""
        snippet = (text.strip().splitlines() or [""])[0][:_CHARACTERS] or "Hello"
        if snippet != self._snippet:
            self._snippet = snippet
            self._draw()

    def _on_name(self, change: dict[str, str]) -> None:
        # The explorer shows the client's error for an unknown title.
        if change["new"]:
            self.handwriting = change["new"]

    def _sort(self) -> None:
        column, ascending = _ORDERS[self.order.value]
        self._listing = self._listing.sort_values([column, "title"], ascending=[ascending, True], kind="stable")
        self._first = 0
        self._draw()

    def _turn(self, by: int) -> None:
        last = max(0, (len(self._listing) - 1) // PAGE * PAGE)
        self._first = min(max(0, self._first + by), last)
        self._draw()

    def _turn_to_chosen(self) -> None:
        titles = [title.casefold() for title in self._listing["title"]]
        if self.handwriting.casefold() in titles:
            at = titles.index(self.handwriting.casefold())
            self.name.value = self._listing["title"].iloc[at]
            page = at // PAGE * PAGE
            if page != self._first or not self.cards[0].description:
                self._first = page
                self._draw()
        self._highlight_chosen()

    def _highlight_chosen(self) -> None:
        for card in self.cards:
            card.button_style = "primary" if card.description == self.handwriting else ""

    def _draw(self) -> None:
        titles = list(self._listing["title"].iloc[self._first : self._first + PAGE])
        self.back_button.disabled = self._first == 0
        self.on_button.disabled = self._first + PAGE >= len(self._listing)
        for number, (picture, card) in enumerate(zip(self.pictures, self.cards, strict=True)):
            shown = number < len(titles)
            card.layout.visibility = picture.layout.visibility = "visible" if shown else "hidden"
            card.description = titles[number] if shown else ""
            card.tooltip = f"Write with {card.description}"
            if shown and self._snippet:
                picture.value = paper(self._client.rendered(self._snippet, titles[number], "png", _PICTURE_STYLE))
        self._highlight_chosen()


def paper(writing: Handwritten, label: str = "") -> str:
    """Return a writing as HTML, on white paper in every theme."""
    data = base64.b64encode(writing.data).decode("ascii")
    alt = escape(label or f"In the hand of {writing.handwriting}", quote=True)
    return (
        f'<img alt="{alt}" src="data:image/png;base64,{data}" '
        'style="background:#fff;max-width:calc(100% - 4px);height:auto;margin:2px;border-radius:3px;'
        'box-shadow:0 0 3px #8888">'
    )
