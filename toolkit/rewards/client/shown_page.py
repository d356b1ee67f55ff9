"""A reward page in a notebook: a sandboxed frame where it is live, its words where it is not."""

from __future__ import annotations

import html
from typing import Any
from urllib.parse import parse_qs, urlsplit

from toolkit.errors import UnexpectedReply
from toolkit.http_client import HttpSession
from toolkit.rewards import wire
from toolkit.secret import Secret

FRAME_HEIGHT = 330


class RewardPage:
    """The page of one reward: its words as plain text, and its ``html`` once it was fetched.

    Its address holds the view's token, so it is never part of a saved output.
    """

    def __init__(self, title: str, message: str, body_url: str) -> None:
        self.title = title
        self.message = message
        self.body_url = body_url
        self.html = ""

    def fetch(self) -> None:
        """Read the page into ``html``. Reading it counts as nothing: only a shown one is counted.

        Raises
        ------
        NotFound
            It does not exist, or has expired.
        UnexpectedReply
            It is no page.
        """
        parts = urlsplit(self.body_url)
        before, _, view_id = parts.path.rpartition("/reward/")
        token = parse_qs(parts.query).get(wire.TOKEN.name, [""])[0]
        session = HttpSession(f"{parts.scheme}://{parts.netloc}{before}")
        try:
            reply = session.call(wire.REWARD_PAGE, {"view": view_id}, query={wire.TOKEN.name: Secret(token)})
        finally:
            session.close()
        if reply.status in (404, 410):
            error = wire.refusal("unknown_reward" if reply.status == 404 else "reward_expired")
            error.service, error.request = "rewards", "GET /reward/{view}"
            raise error
        if reply.status != 200 or not reply.headers.get("content-type", "").startswith("text/html"):
            raise UnexpectedReply("the answer to GET /reward/{view} is no page")
        self.html = reply.body.decode("utf-8", "replace")

    @property
    def frame(self) -> str:
        """The HTML of a sandboxed frame with the page: its script runs, without the notebook's origin."""
        # Of the page's own colour schemes, or a dark notebook would put white behind it.
        address, name = html.escape(f"{self.body_url}#show"), html.escape(self.title)
        return (
            f'<iframe src="{address}" title="{name}" sandbox="allow-scripts" referrerpolicy="no-referrer"'
            f' style="color-scheme:light dark;border:0;width:100%;height:{FRAME_HEIGHT}px"></iframe>'
        )

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        from ipywidgets import HTML

        live: dict[str, Any] = HTML(self.frame)._repr_mimebundle_() or {}
        # For a saved notebook: the words without the address, which holds the token.
        title, message = html.escape(self.title), html.escape(self.message)
        style = "border:1px solid #8888;border-radius:8px;max-width:24em;padding:1em;text-align:center"
        words = f'<div style="{style}"><p><strong>{title}</strong></p><p>{message}</p></div>'
        return {**live, "text/html": words, "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<RewardPage {self.title!r}: {self.message}>"
