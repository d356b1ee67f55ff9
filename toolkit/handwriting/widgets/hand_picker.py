"""Choose a hand from small pictures, which show the beginning of the text in each hand, six hands per page."""

import base64
import textwrap
from collections.abc import Callable
from functools import partial
from html import escape

import ipywidgets
import pandas as pd
import traitlets

from toolkit.handwriting.client.handwriting import HandwritingClient, renderer_of
from toolkit.handwriting.client.style import PageStyle
from toolkit.handwriting.handwritten import Handwritten, choose_background
from toolkit.handwriting.wire import CONTENT_TYPES, RATINGS
from toolkit.widgets.base import button, html_line, in_turn, row, sized

CARDS_PER_PAGE = 6
_SNIPPET_LENGTH, _MAX_WORD_LENGTH = 14, 24  # characters; a longer first word is shown up to the second limit
_PICTURE_STYLE = PageStyle(handwriting_size=20, width="auto", random_seed=1)
_RATING_LABELS = {name: name.removeprefix("rating_").replace("_", " ") for name in RATINGS}
_SORTINGS = {"by title": ("title", True), **{f"by {label}": (name, False) for name, label in _RATING_LABELS.items()}}


class HandPicker(ipywidgets.VBox):  # type: ignore[misc]
    """A field for the title, and pictures of hands. `attempt` runs an action and shows the error if the action fails.

    ``handwriting`` is the title of the chosen hand; ``cards`` are the buttons behind the pictures.
    """

    handwriting = traitlets.Unicode("")

    def __init__(
        self, client: HandwritingClient, handwriting: str, attempt: Callable[[Callable[[], None]], None]
    ) -> None:
        self._client = client
        self._attempt = attempt
        self._listing = pd.DataFrame({"title": pd.Series(dtype="str")})
        self._snippet, self._first = "", 0
        self._html_by_hand: dict[str, str] = {}  # the HTML of the snippet by title
        name = ipywidgets.Combobox(description="Hand", continuous_update=False)
        self.name = sized(name, "14em", label="3em", tip="Type a title, or click a picture")
        order = ipywidgets.Dropdown(options=list(_SORTINGS), description="Sorted")
        tip = "The order of the pictures. The highest rating is first, and 1400 is the mean"
        self.order = sized(order, "16.5em", label="3.5em", tip=tip)
        self.back_button = button("", "arrow-left", "Previous hands", partial(self._turn_pages, -CARDS_PER_PAGE))
        self.next_button = button("", "arrow-right", "More hands", partial(self._turn_pages, CARDS_PER_PAGE))
        self.page_label = ipywidgets.Label()
        self.ratings = html_line()
        self.pictures = [ipywidgets.HTML() for _ in range(CARDS_PER_PAGE)]
        self.cards = [ipywidgets.Button() for _ in range(CARDS_PER_PAGE)]
        self._cells = [ipywidgets.Box(pair) for pair in zip(self.cards, self.pictures, strict=True)]
        for cell in self._cells:
            cell.add_class("toolkit-hand")
        page_buttons = ipywidgets.HBox((self.back_button, self.page_label, self.next_button))
        head = row(self.name, self.order, page_buttons, self.ratings)
        cards = row(*self._cells).add_class("toolkit-hands")
        super().__init__((head, cards), layout=ipywidgets.Layout(overflow="visible"))
        self.handwriting = handwriting
        self.observe(lambda _: self._attempt(self._turn_to_chosen), "handwriting")
        # For an unknown title the client raises an error when the explorer renders, and the explorer shows it.
        self.name.observe(lambda change: self.set_trait("handwriting", change["new"] or self.handwriting), "value")
        self.order.observe(lambda _: self._attempt(self._sort), "value")
        for card in self.cards:
            card.on_click(lambda clicked: self.set_trait("handwriting", clicked.description))

    def load(self) -> None:
        """Read the list of hands, and show the page with the chosen hand."""
        self._listing = self._client.available(order_by="title")
        self.name.options = tuple(self._listing["title"])
        renderer = renderer_of(self._client)
        self.handwriting = renderer.titles[renderer.id_of(self.handwriting)]
        self._turn_to_chosen()

    def show_text(self, text: str) -> None:
        """Show the beginning of `text` in all pictures of the page."""
        line = (text.strip().splitlines() or [""])[0] or "Hello"
        pieces = textwrap.wrap(line, _SNIPPET_LENGTH, break_long_words=False, break_on_hyphens=False)
        snippet = pieces[0][:_MAX_WORD_LENGTH]
        if snippet != self._snippet:
            self._snippet, self._html_by_hand = snippet, {}
            self._draw()

    def _sort(self) -> None:
        column, ascending = _SORTINGS[self.order.value]
        self._listing = self._listing.sort_values([column, "title"], ascending=[ascending, True], kind="stable")
        self._first = 0
        self._draw()

    @in_turn
    def _turn_pages(self, cards: int) -> None:
        first_of_last_page = max(0, (len(self._listing) - 1) // CARDS_PER_PAGE * CARDS_PER_PAGE)
        self._first = min(max(0, self._first + cards), first_of_last_page)
        self._attempt(self._draw)

    def _turn_to_chosen(self) -> None:
        titles = [title.casefold() for title in self._listing["title"]]
        if self.handwriting.casefold() in titles:
            index = titles.index(self.handwriting.casefold())
            self.name.value = self._listing["title"].iloc[index]
            self._first = index // CARDS_PER_PAGE * CARDS_PER_PAGE
        self._draw()

    def _draw(self) -> None:
        hands = self._listing.iloc[self._first : self._first + CARDS_PER_PAGE]
        self.back_button.disabled = self._first == 0
        self.next_button.disabled = self._first + CARDS_PER_PAGE >= len(self._listing)
        page_count = max(1, -(-len(self._listing) // CARDS_PER_PAGE))
        self.page_label.value = f"page {self._first // CARDS_PER_PAGE + 1} of {page_count}"
        sorted_by, _ = _SORTINGS[self.order.value]
        for cell in self._cells[len(hands) :]:
            cell.layout.visibility = "hidden"
        for (_, hand), picture, card, cell in zip(
            hands.iterrows(), self.pictures, self.cards, self._cells, strict=False
        ):
            title, ratings = hand["title"], _ratings_of(hand)
            cell.layout.visibility = "visible"
            (cell.add_class if title == self.handwriting else cell.remove_class)("toolkit-chosen")
            card.description = title
            card.tooltip = "\n".join([f"Write with {title}", *ratings.values()])
            if self._snippet:
                rating = escape(ratings.get(sorted_by, ratings[RATINGS[0]]))
                picture.value = f'{self._snippet_html(title)}<span class="toolkit-hint">{rating}</span>'
        chosen = self._listing[self._listing["title"] == self.handwriting]
        ratings_text = ", ".join(_ratings_of(chosen.iloc[0]).values()) if len(chosen) else ""
        self.ratings.value = f'<span class="toolkit-hint">{escape(ratings_text)}</span>'

    def _snippet_html(self, title: str) -> str:
        if title not in self._html_by_hand:
            picture = renderer_of(self._client).render(self._snippet, title, "png", _PICTURE_STYLE)
            self._html_by_hand[title] = picture_html(picture)
        return self._html_by_hand[title]


def _ratings_of(hand: pd.Series) -> dict[str, str]:
    """Return the ratings of a hand as texts such as ``neatness 1512``, by the column of the rating."""
    return {name: f"{label} {hand[name]}" for name, label in _RATING_LABELS.items()}


def picture_html(writing: Handwritten, label: str = "", animation: Handwritten | None = None) -> str:
    """Return HTML with a rendering, or its animation if given, at true scale and on a white or dark background."""
    shown = animation or writing
    data = base64.b64encode(shown.data).decode("ascii")
    alt = escape(label or f"In the hand of {writing.handwriting}", quote=True)
    return (
        f'<img class="toolkit-sheet" alt="{alt}" width="{writing.width:g}" height="{writing.height:g}" '
        f'style="background:{choose_background(writing.image())}" src="data:{CONTENT_TYPES[shown.kind]};base64,{data}">'
    )
