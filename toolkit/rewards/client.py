"""The client of mobile rewards: sessions, moments and reward pages."""

import base64
import html
import io
import re
import textwrap
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pandas as pd
from msgspec.structs import asdict

from toolkit.argument_checks import checked_arguments
from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument, NotFound, UnexpectedReply, warn_caller
from toolkit.frames import TimeLike, declared_frame, utc_timestamp
from toolkit.http_client import HttpSession
from toolkit.public_api import PublicNames
from toolkit.rewards import wire
from toolkit.rewards.analysis.rates import boolean_column, check_columns
from toolkit.rewards.wire import checked_moment_id, start_text
from toolkit.secret import Secret
from toolkit.system.nearest_name import missing_names

MOMENT_COLUMNS = {
    "date": "datetime64[us, UTC]", "moment_id": "str", "device": "str", "test": "bool", "rewarded": "bool",
    "view_id": "str", "title": "str", "message": "str", "body_url": "str", "reason": "str", "arm": "str",
    "decision_id": "str",
}  # fmt: skip
_FRAME_HEIGHT_PX = 330
SESSION_COLUMNS = {"date": "datetime64[us, UTC]", "device": "str", "test": "bool"}


class _Modal(msgspec.Struct):
    body_url: str
    title: str | None = None
    message: str | None = None


class _View(msgspec.Struct):
    id: str
    modal: _Modal


class _MomentResponse(msgspec.Struct):
    date: datetime
    view: _View | None = None


class RewardPage:
    """The HTML page of one reward: title and message as plain text, and ``html`` after `fetch`.

    The URL contains a secret token, so the output that a notebook saves does not contain the URL.
    """

    def __init__(self, title: str, message: str, body_url: str) -> None:
        self.title = title
        self.message = message
        self.body_url = body_url
        self.html = ""

    def fetch(self) -> None:
        """Fetch the page into ``html``; the service does not count this as ``shown``.

        NotFound if the reward does not exist, or has expired (``status`` 410).
        """
        parts = urlsplit(self.body_url)
        # Another server may use any path for its pages. The query is secret, because it may hold a token.
        endpoint = Endpoint("GET", parts.path.replace("{", "%7B") or "/")
        query = {name: Secret(value) for name, value in parse_qsl(parts.query, keep_blank_values=True)}
        with closing(HttpSession(f"{parts.scheme}://{parts.netloc}")) as session:
            reply = session.call(endpoint, query=query)
        if reply.status in wire.NO_REWARD:
            code, message = wire.NO_REWARD[reply.status]
            raise NotFound(message, code=code, status=reply.status, service="rewards", request="GET /reward/{view}")
        if reply.status != 200 or not reply.headers.get("content-type", "").startswith("text/html"):
            raise UnexpectedReply("the response to GET /reward/{view} is not an HTML page")
        self.html = reply.body.decode("utf-8", "replace")

    @property
    def frame(self) -> str:
        """The HTML of a sandboxed frame: scripts of the page run in it, without access to the notebook."""
        # Without `color-scheme`, browsers draw the frame on white in a dark notebook.
        url, title = html.escape(f"{self.body_url}#show"), html.escape(self.title)
        return (
            f'<iframe src="{url}" title="{title}" sandbox="allow-scripts" referrerpolicy="no-referrer"'
            f' style="color-scheme:light dark;border:0;width:100%;height:{_FRAME_HEIGHT_PX}px"></iframe>'
        )

    def picture(self) -> bytes:
        """Return title and message as PNG, without the URL, which contains the token."""
        from matplotlib.figure import Figure

        figure, file = Figure(figsize=(4, 1), dpi=100, edgecolor="#888888", linewidth=2), io.BytesIO()
        for text, alignment in ((self.title, "bottom"), (self.message, "top")):
            lines = textwrap.fill(text, 50)
            weight = "bold" if alignment == "bottom" else "normal"
            figure.text(0.5, 0.5, f"\n{lines}\n", ha="center", va=alignment, weight=weight, parse_math=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the font of matplotlib has no emoji; the page itself shows them
            figure.savefig(file, format="png", bbox_inches="tight", pad_inches=0.1)
        return file.getvalue()

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        from ipywidgets import HTML

        bundle: dict[str, Any] = HTML(self.frame)._repr_mimebundle_() or {}
        return {**bundle, "image/png": base64.b64encode(self.picture()).decode("ascii"), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<RewardPage {self.title!r}: {self.message}>"


@checked_arguments
def new_device_id(company_token: str) -> str:
    """Return a new device id for a user who opted out of advertiser tracking; the app must store it on the device.

    The id has the form ``<company_token>-<8 hex>-<4 hex>-<4 hex>-<4 hex>-<12 hex>``.

    Examples
    --------
    >>> new_device_id("acme").startswith("acme-")
    True
    """
    if re.fullmatch(wire.COMPANY_TOKEN_PATTERN, company_token) is None:
        raise InvalidArgument("a company token has 1 to 64 letters, digits, dots, dashes or underscores")
    return f"{company_token}-{uuid.uuid4()}"


@checked_arguments
class RewardClient(PublicNames):
    """Sessions, moments and reward pages. Made by `toolkit.connect`, as ``tk.rewards``.

    The analysis of decisions needs no connection: ``toolkit.rewards.funnel(decisions)``.
    """

    def __init__(
        self, session: HttpSession, credential: Callable[[str], Secret], now: Callable[[], int] | None = None
    ) -> None:
        self._session = session
        self._credential = credential
        self._now = now or (lambda: time.time_ns() // 1_000_000)

    new_device_id = staticmethod(new_device_id)

    def __repr__(self) -> str:
        return f"<Mobile rewards at {self._session.base_url}>"

    def start_session(self, device: str, *, start: TimeLike | None = None, test: bool = False) -> pd.DataFrame:
        """Start a session for a device that came online: ``POST /2.0/web/moment/`` with ``events``.

        A moment earns a reward only while the device has a live session.

        Parameters
        ----------
        device
            The advertiser identifier, or an identifier from `new_device_id`.
        start
            When the device came online; in UTC if `start` has no time zone, now if None.

        Returns
        -------
        pandas.DataFrame
            One row: date (UTC, the session's start), device, test. If the service refuses, ``error.code`` and
            ``error.field`` of MalformedRequest, KeyRejected or RateLimited say why.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.Gateway.demo() as gateway, toolkit.connect(gateway) as tk:
        ...     len(tk.rewards.start_session(tk.rewards.new_device_id("acme")))
        1
        """
        online = datetime.fromtimestamp(self._now() / 1000, UTC) if start is None else utc_timestamp(start, "start")
        event = {"id": wire.SESSION_START, "start": start_text(online)}
        response, _ = self._post({"device_id": device, "events": [event], "test": bool(test)})
        return declared_frame([{"date": response.date, "device": device, "test": test}], SESSION_COLUMNS)

    def moment(self, device: str, moment_id: str, *, test: bool = False) -> pd.DataFrame:
        """Submit one rewardable action: ``POST /2.0/web/moment/`` with ``moment_id``.

        Parameters
        ----------
        moment_id
            Your name for the action, 1 to 128 characters; new names need no registration.
        test
            A test moment always earns a reward, uses no stock and counts for no cap.

        Returns
        -------
        pandas.DataFrame
            One row: date (UTC), moment_id, device, test, rewarded, view_id, title, message, body_url, reason (None
            if the server sends no reason), arm and decision_id (None unless the operator shows them to this partner:
            ``show_arms``). A moment without a reward is a row with ``rewarded=False``. A warning says if the gateway
            has rules for nearly the same name, but not for `moment_id`. Errors are those of `start_session`.
        """
        return self._send_moments([(device, moment_id, test)])

    def moments(self, moments: pd.DataFrame, *, progress: bool = True) -> pd.DataFrame:
        """Submit a frame of moments, one request per row, in order; return one row per moment, as `moment` does.

        The frame has the columns device, moment_id, and optionally test. moment_id and test are checked before the
        first request. If a request fails, the earlier moments remain decided.
        """
        check_columns(moments, ("device", "moment_id"), "moments")
        from tqdm.auto import tqdm

        tests = boolean_column(moments["test"]) if "test" in moments.columns else [False] * len(moments)
        rows = list(zip(moments["device"], map(checked_moment_id, moments["moment_id"]), tests, strict=True))
        return self._send_moments(tqdm(rows, desc="moments", unit="moment", disable=not progress))

    def page(self, reward: pd.DataFrame | Mapping[str, Any] | pd.Series) -> RewardPage:
        """Return the reward page for a row of `moment`, or a frame of one row; notebooks show it in a sandboxed frame.

        Sends ``GET`` to the moment's ``body_url``. NotFound with ``status`` 410 means that the reward has expired.
        """
        if isinstance(reward, pd.DataFrame):
            if len(reward) != 1:
                raise InvalidArgument(f"give one moment, not {len(reward)}")
            reward = reward.iloc[0]
        url = reward.get("body_url")
        if not isinstance(url, str):
            raise InvalidArgument("this moment earned no reward, so there is no page")
        # Another server may send no title and no message.
        title, message = (text if isinstance(text := reward.get(name), str) else "" for name in ("title", "message"))
        page = RewardPage(title, message, url)
        page.fetch()
        return page

    def _send_moments(self, moments: Iterable[tuple[str, str, bool]]) -> pd.DataFrame:
        """Send moments in order; warn of those that are probably misspelt, because the rules have nearly their name."""
        nearest: dict[str, str] = {}
        frame = declared_frame([self._send_moment(*moment, nearest) for moment in moments], MOMENT_COLUMNS)
        if nearest:
            asked, known = frame["moment_id"].nunique(), list(nearest.values())
            warn_caller(missing_names("the gateway has no rules for", "moment", list(nearest), asked, known))
        return frame

    def _send_moment(self, device: str, moment_id: str, test: bool, nearest: dict[str, str]) -> dict[str, Any]:
        name = checked_moment_id(moment_id)
        response, decision = self._post({"device_id": device, "moment_id": name, "test": bool(test)})
        decision_id, *parts = decision.split("; ")
        told = {key: unquote(value) for key, _, value in (part.partition("=") for part in parts)}
        if "nearest" in told:
            nearest[name] = told["nearest"]
        row = {"date": response.date, "moment_id": name, "device": device, "test": test, "reason": told.get("reason")}
        if "arm" in told:  # the operator shows arms to this partner; an empty text is a moment without arms
            row |= {"arm": told["arm"] or None, "decision_id": decision_id}
        if response.view is None:
            return {**row, "rewarded": False}
        return {**row, "rewarded": True, "view_id": response.view.id, **asdict(response.view.modal)}

    def _post(self, fields: Mapping[str, object]) -> tuple[_MomentResponse, str]:
        """Return the response and its decision header, such as ``d-000042; reason=DEVICE_CAP``."""
        gatewaykey, app_key = self._credential(wire.GATEWAYKEY), self._credential("app_key")
        body = {"app_key": app_key, "protocol": wire.PROTOCOL, "sdk_version": wire.SDK_VERSION, **fields}
        headers = {"Accept": "application/json"}
        now = str(int(time.time()))
        query: dict[str, str | Secret] = {wire.CACHE_BUSTER: now, wire.GATEWAYKEY: gatewaykey}
        reply = self._session.call(wire.POST_MOMENT, query=query, body=body, headers=headers)
        request = str(wire.POST_MOMENT)
        if reply.status != 200:
            raise wire.error_of(reply.status, reply.body, request=request, retry_after=reply.headers.get("retry-after"))
        try:
            response = msgspec.json.decode(reply.body, type=_MomentResponse)
        except (ValueError, RecursionError):
            raise UnexpectedReply(f"the response to {request} is neither a session nor a moment") from None
        return response, reply.headers.get(wire.DECISION_HEADER.lower(), "")
