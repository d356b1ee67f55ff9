"""Choose a hand by its title, or from a wall of small pictures: the beginning of the text in each hand."""

import textwrap
from collections.abc import Callable, Hashable, Mapping
from html import escape
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import pandas as pd
import traitlets

from toolkit.errors import ToolkitError
from toolkit.handwriting.client.handwriting import HandwritingClient, renderer_of
from toolkit.handwriting.client.style import PageStyle
from toolkit.handwriting.wire import RATINGS
from toolkit.widgets.base import html_line, make, row, shared

_SNIPPET_LENGTH, _MAX_WORD_LENGTH = 14, 24  # characters; a longer first word is shown up to the second limit
_PICTURE_STYLE = PageStyle(handwriting_size=20, width="auto", random_seed=1)


class HandWall(anywidget.AnyWidget):
    """A grid of hands; ``chosen`` is the title of one. The browser asks for the pictures of the cards that are seen."""

    _esm = Path(__file__).with_name("hand_wall.js")

    #: For each hand: its ``title``, a ``hint`` below it, a ``tip`` at the pointer.
    hands: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)
    chosen = traitlets.Unicode().tag(sync=True)
    snippet = traitlets.Unicode().tag(sync=True)
    is_open = traitlets.Bool(False).tag(sync=True)

    def __init__(self, render: Callable[[str, str], bytes]) -> None:
        super().__init__(layout=shared(ipywidgets.Layout))
        self._render = render
        self.on_msg(self._send_pictures)

    def _send_pictures(self, _widget: object, message: Any, _buffers: object) -> None:  # noqa: ANN401
        snippet = message.get("snippet")
        for title in message.get("titles", ()) if snippet == self.snippet else ():
            answer, picture = {"title": title, "snippet": snippet, "problem": ""}, b""
            try:
                picture = self._render(snippet, title)
            except ToolkitError as error:
                answer["problem"] = "no answer" if error.retryable else "cannot write this"
            self.send(answer, [picture] if picture else [b""])


class HandPicker(ipywidgets.VBox):  # type: ignore[misc]
    """A field for the title, and the wall of hands. `attempt` runs an action and shows the error if the action fails.

    ``handwriting`` is the title of the chosen hand.
    """

    handwriting = traitlets.Unicode("")

    def __init__(
        self, client: HandwritingClient, handwriting: str, attempt: Callable[[Callable[[], None]], None]
    ) -> None:
        self._client = client
        self._listing = pd.DataFrame({"title": pd.Series(dtype="str")})
        tip = "Type a title, or choose a picture"
        self.name = make(ipywidgets.Combobox, "Hand", "14em", label="3em", tip=tip, continuous_update=False)
        self.all = make(ipywidgets.ToggleButton, "All hands", icon="th", tip="Show all hands at once")
        self.ratings = html_line()
        self.wall = HandWall(self._snippet_png)
        head = row(self.name, self.all, self.ratings)
        super().__init__((head, self.wall), layout=shared(ipywidgets.Layout, overflow="visible", width="100%"))
        self.handwriting = self.wall.chosen = handwriting
        traitlets.link((self, "handwriting"), (self.wall, "chosen"))
        ipywidgets.dlink((self.all, "value"), (self.wall, "is_open"))
        self.observe(lambda _change: attempt(self._show_chosen), "handwriting")
        # For an unknown title the client raises an error when the explorer renders, and the explorer shows it.
        self.name.observe(lambda change: self.set_trait("handwriting", change["new"] or self.handwriting), "value")

    def load(self) -> None:
        self._listing = self._client.available(order_by="title")
        self.name.options = tuple(self._listing["title"])
        renderer = renderer_of(self._client)
        self.handwriting = renderer.titles[renderer.id_of(self.handwriting)]
        self.wall.hands = [_card_of(hand) for hand in self._listing.to_dict("records")]
        self._show_chosen()

    def show_text(self, text: str) -> None:
        line = next((line for line in text.splitlines() if line.strip()), "Hello")
        pieces = textwrap.wrap(line, _SNIPPET_LENGTH, break_long_words=False, break_on_hyphens=False)
        self.wall.snippet = pieces[0][:_MAX_WORD_LENGTH]

    def _show_chosen(self) -> None:
        chosen = self._listing[self._listing["title"].str.casefold() == self.handwriting.casefold()]
        if len(chosen):
            self.name.value = chosen["title"].iloc[0]
        ratings_text = ", ".join(_ratings_of(chosen.iloc[0].to_dict())) if len(chosen) else ""
        self.ratings.value = f'<span class="toolkit-hint">{escape(ratings_text)}</span>'

    def _snippet_png(self, snippet: str, title: str) -> bytes:
        return renderer_of(self._client).render(snippet, title, "png", _PICTURE_STYLE).data


def _card_of(hand: Mapping[Hashable, Any]) -> dict[str, str]:
    ratings = _ratings_of(hand)
    return {"title": hand["title"], "hint": ratings[0], "tip": "\n".join([f"Write with {hand['title']}", *ratings])}


def _ratings_of(hand: Mapping[Hashable, Any]) -> list[str]:
    """Return the ratings of a hand as texts such as ``neatness 1512``; 1400 is the mean."""
    return [f"{name.removeprefix('rating_').replace('_', ' ')} {hand[name]}" for name in RATINGS]
