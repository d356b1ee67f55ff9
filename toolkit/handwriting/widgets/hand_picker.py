"""Choose a hand from small pictures of the text in each hand, several hands at a time."""

from __future__ import annotations

import base64
import textwrap
from collections.abc import Callable, Sequence
from functools import partial
from html import escape

import ipywidgets
import pandas as pd
import traitlets

from toolkit.handwriting.client.handwriting import HandwritingClient
from toolkit.handwriting.client.style import Style
from toolkit.handwriting.handwritten import Handwritten, paper_colour
from toolkit.handwriting.wire import CONTENT_TYPES, RATINGS
from toolkit.widget_family import add_tip, button, html_line, row, sized

CARDS_A_PAGE = 6
_CHARACTERS, _LONGEST_WORD = 14, 24
_PICTURE_STYLE = Style(handwriting_size=20, width="auto", height="auto", random_seed=1)
_RATING_LABELS = {name: name.removeprefix("rating_").replace("_", " ") for name in RATINGS}
_SORTINGS = {"by title": ("title", True), **{f"by {words}": (name, False) for name, words in _RATING_LABELS.items()}}


class HandPicker(ipywidgets.VBox):  # type: ignore[misc]
    """A field for the title, and pictures of hands. `attempt` runs the action of a click and shows the error, if any.

    ``handwriting`` is the title of the chosen hand, ``cards`` are the buttons around the pictures.
    """

    handwriting = traitlets.Unicode("")

    def __init__(
        self, client: HandwritingClient, handwriting: str, attempt: Callable[[Callable[[], None]], None]
    ) -> None:
        self._client = client
        self._attempt = attempt
        self._listing = pd.DataFrame({"title": pd.Series(dtype="str")})
        self._snippet, self._first = "", 0
        self.name = sized(ipywidgets.Combobox(description="Hand", continuous_update=False), "14em", label="3em")
        add_tip(self.name, "Type a title, or click a picture")
        self.order = sized(ipywidgets.Dropdown(options=list(_SORTINGS), description="Sorted"), "16.5em", label="3.5em")
        add_tip(self.order, "The order of the pictures: the highest rating first, 1400 is the average")
        self.back_button = button("", "arrow-left", "Hands before these")
        self.on_button = button("", "arrow-right", "More hands")
        self.place = ipywidgets.Label()
        self.ratings = html_line()
        self.pictures = [ipywidgets.HTML() for _ in range(CARDS_A_PAGE)]
        self.cards = [ipywidgets.Button() for _ in range(CARDS_A_PAGE)]
        self._cells = [ipywidgets.Box(pair) for pair in zip(self.cards, self.pictures, strict=True)]
        for cell in self._cells:
            cell.add_class("toolkit-hand")
        turning = ipywidgets.HBox((self.back_button, self.place, self.on_button))
        pages = row(self.name, self.order, turning, self.ratings)
        cards = row(*self._cells).add_class("toolkit-hands")
        super().__init__((pages, cards), layout=ipywidgets.Layout(overflow="visible"))
        self.handwriting = handwriting
        self.observe(lambda _: self._attempt(self._turn_to_chosen), "handwriting")
        self.name.observe(self._on_name, "value")
        self.order.observe(lambda _: self._attempt(self._sort), "value")
        self.back_button.on_click(lambda _: self._attempt(partial(self._turn_pages, -CARDS_A_PAGE)))
        self.on_button.on_click(lambda _: self._attempt(partial(self._turn_pages, CARDS_A_PAGE)))
        for card in self.cards:
            card.on_click(lambda clicked: self.set_trait("handwriting", clicked.description))

    def load(self) -> None:
        """Read the list of hands, and show the page with the chosen hand."""
        self._listing = self._client.available(order_by="title")
        self.name.options = tuple(self._listing["title"])
        self.handwriting = str(self._client.hand(self.handwriting)["title"].iloc[0])
        self._turn_to_chosen()

    def show_text(self, text: str) -> None:
        """Show the beginning of `text` in all pictures of the page."""
        line = (text.strip().splitlines() or [""])[0] or "Hello"
        fitting = textwrap.wrap(line, _CHARACTERS, break_long_words=False, break_on_hyphens=False)
        snippet = fitting[0][:_LONGEST_WORD]
        if snippet != self._snippet:
            self._snippet = snippet
            self._draw()

    def _on_name(self, change: dict[str, str]) -> None:
        # The explorer shows the client's error for an unknown title.
        if change["new"]:
            self.handwriting = change["new"]

    def _sort(self) -> None:
        column, ascending = _SORTINGS[self.order.value]
        self._listing = self._listing.sort_values([column, "title"], ascending=[ascending, True], kind="stable")
        self._first = 0
        self._draw()

    def _turn_pages(self, by: int) -> None:
        last = max(0, (len(self._listing) - 1) // CARDS_A_PAGE * CARDS_A_PAGE)
        self._first = min(max(0, self._first + by), last)
        self._draw()

    def _turn_to_chosen(self) -> None:
        titles = [title.casefold() for title in self._listing["title"]]
        if self.handwriting.casefold() in titles:
            at = titles.index(self.handwriting.casefold())
            self.name.value = self._listing["title"].iloc[at]
            page = at // CARDS_A_PAGE * CARDS_A_PAGE
            if page != self._first or not self.cards[0].description:
                self._first = page
                self._draw()
        self._highlight_chosen()

    def _highlight_chosen(self) -> None:
        for card, cell in zip(self.cards, self._cells, strict=True):
            is_chosen = card.description == self.handwriting
            (cell.add_class if is_chosen else cell.remove_class)("toolkit-chosen")
        chosen = self._listing[self._listing["title"] == self.handwriting]
        said = ", ".join(_ratings_of(chosen.iloc[0], RATINGS)) if len(chosen) else ""
        self.ratings.value = f'<span class="toolkit-hint">{escape(said)}</span>'

    def _draw(self) -> None:
        hands = self._listing.iloc[self._first : self._first + CARDS_A_PAGE]
        self.back_button.disabled = self._first == 0
        self.on_button.disabled = self._first + CARDS_A_PAGE >= len(self._listing)
        self.place.value = f"page {self._first // CARDS_A_PAGE + 1} of {max(1, -(-len(self._listing) // CARDS_A_PAGE))}"
        shown_rating = [_SORTINGS[self.order.value][0]] if self.order.value != "by title" else RATINGS[:1]
        for number, (picture, card, cell) in enumerate(zip(self.pictures, self.cards, self._cells, strict=True)):
            cell.layout.visibility = "visible" if number < len(hands) else "hidden"
            if number >= len(hands):
                card.description = ""
                continue
            hand = hands.iloc[number]
            card.description = hand["title"]
            card.tooltip = "\n".join([f"Write with {hand['title']}", *_ratings_of(hand, RATINGS)])
            if self._snippet:
                written = self._client.rendered(self._snippet, hand["title"], "png", _PICTURE_STYLE)
                rating = escape(", ".join(_ratings_of(hand, shown_rating)))
                picture.value = f'{picture_html(written)}<span class="toolkit-hint">{rating}</span>'
        self._highlight_chosen()


def _ratings_of(hand: pd.Series, names: Sequence[str]) -> list[str]:
    """Return ratings as ``neatness 1512``."""
    return [f"{_RATING_LABELS[name]} {hand[name]}" for name in names]


def picture_html(writing: Handwritten, label: str = "", moving: Handwritten | None = None) -> str:
    """Return HTML with a rendering, or with the `moving` animation instead, at true scale and on a paper colour."""
    shown = moving or writing
    data = base64.b64encode(shown.data).decode("ascii")
    alt = escape(label or f"In the hand of {writing.handwriting}", quote=True)
    return (
        f'<img class="toolkit-sheet" alt="{alt}" width="{writing.width:g}" height="{writing.height:g}" '
        f'style="background:{paper_colour(writing.image())}" src="data:{CONTENT_TYPES[shown.kind]};base64,{data}">'
    )
