"""The client of the operator API: ``tk.operator``."""

from typing import Any, TypedDict

import msgspec
import pandas as pd

from toolkit.argument_checks import checked_arguments
from toolkit.dweets.wire import IssuedLock
from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidArgument, UnexpectedReply
from toolkit.frames import declared_frame
from toolkit.http_client import HttpSession
from toolkit.identity.client.transaction import AuthenticatedUser
from toolkit.identity.flow import State
from toolkit.operator import wire
from toolkit.public_api import PublicNames
from toolkit.rewards.analysis.rates import SESSION_COLUMNS, decision_frame, with_device_ids
from toolkit.rewards.configuration import Configuration
from toolkit.secret import Secret

_KEY_MISSING_MESSAGE = (
    "the operator key is missing: it is in the file operator.key of the gateway's data folder. Use "
    "toolkit.connect(url, operator_key=...), or set $TOOLKIT_OPERATOR_KEY and $TOOLKIT_URL, as `toolkit lab` does"
)
_ROWS = list[dict[str, Any]]


class _IssuedLock(TypedDict):
    lock: str
    master_key: str
    read_key: str


class _Mail(TypedDict):
    at: int
    to: list[str]
    thing: str
    subject: str
    text: str
    state: str
    error: str


@checked_arguments
class OperatorClient(PublicNames):
    """Locks, users, alert mails, reward decisions and the clock of a gateway. Use it as ``tk.operator``.

    The gateway answers only over a loopback address. Every method raises KeyRejected if the key is not that of the
    gateway, and Unreachable if the gateway does not answer.

    Examples
    --------
    >>> import toolkit
    >>> with toolkit.connect() as tk:
    ...     issued = tk.operator.issue_lock()
    ...     locked = tk.dweets.lock("kitchen", lock=issued.lock, key=issued.master_key)
    ...     tk.operator.locks()[["thing", "state"]].values.tolist()
    [['kitchen', 'in use']]
    """

    def __init__(self, session: HttpSession, key: Secret | None) -> None:
        self._session = session
        self._authorization = None if key is None else _authorization(key)

    def __repr__(self) -> str:
        return f"<Operator of the gateway at {self._session.base_url}>"

    def issue_lock(self) -> IssuedLock:
        """Issue a lock (``POST /operator/locks``).

        The result has ``lock``, its name; ``master_key``, for everything; ``read_key``, for latest, history and listen.
        The keys are `Secret` and never shown again: store what ``reveal()`` returns.
        """
        issued = self._call(wire.ISSUE_LOCK, "", _IssuedLock)
        return IssuedLock(issued["lock"], Secret(issued["master_key"]), Secret(issued["read_key"]))

    def locks(self) -> pd.DataFrame:
        """Return all locks by name (``GET /operator/locks``).

        The columns are ``lock``, ``thing`` (missing while no thing uses it) and ``state`` (free, in use or damaged). A
        damaged thing may have a row in which ``lock`` is missing.
        """
        return declared_frame(self._call(wire.GET_LOCKS, "locks", _ROWS), wire.LOCK_FIELDS)

    def revoke_lock(self, lock: str) -> str | None:
        """Remove a lock permanently, with its keys (``DELETE /operator/locks/{lock}``); NotFound if there is none.

        Return the thing that used the lock, if any: it is unlocked, so everybody can read and write it, and its alert
        is removed. Of a damaged thing in a row of `locks` without a lock, give the name of the thing.
        """
        thing: str | None = self._call(wire.REVOKE_LOCK, "thing", str | None, lock=lock)
        return thing

    def reset_user(self, user: AuthenticatedUser | str) -> list[str]:
        """Revoke the code of a user and forget the wrong answers (``POST /operator/identity/reset/{alias}``).

        Use it after a phone was stolen, or if too many wrong answers have locked the user's question. Return what was
        done, a sentence for each change; NotFound if no such user had a code or gave a wrong answer lately.

        Parameters
        ----------
        user
            The user from ``finish_authentication``, or the ``service_alias``, which a program may store.
        """
        alias = user if isinstance(user, str) else user.service_alias
        done: list[str] = self._call(wire.RESET_USER, "done", list[str], alias=alias)
        if not isinstance(user, str):
            user.flow.states = frozenset({State.REVOKED})
        return done

    def outbox(self) -> pd.DataFrame:
        """Return the alert mails, oldest first (``GET /operator/outbox``).

        The columns are ``at`` (UTC), ``thing``, ``to``, ``subject``, ``text``, ``state`` (waiting, sent, kept or
        failed) and ``error``. Of the finished mails, only the last thousand are kept. The gateway first waits, for 5
        seconds at most, until alerts are evaluated for all dweets acknowledged so far.
        """
        mails = self._call(wire.GET_OUTBOX, "mails", list[_Mail])
        rows = [{**mail, "at": mail["at"] * 1000, "to": ", ".join(mail["to"])} for mail in mails]
        return declared_frame(rows, wire.MAIL_FIELDS)

    def decisions(self, *, devices: pd.DataFrame | pd.Series | None = None) -> pd.DataFrame:
        """Return all decisions of the reward engine (``GET /operator/rewards/decisions``).

        Parameters
        ----------
        devices
            Your device ids: a Series, or a frame with the column ``device``. The result gets the column
            ``device_id``, to merge decisions with your own users; it is missing for devices that you do not name. A
            warning says if no decision is of these devices.

        Returns
        -------
        DataFrame
            By number: ``decision_id``, ``at`` (UTC), ``device`` (a label), ``moment_id``, ``rewarded``, ``reason``,
            ``arm``, ``p`` (the chance that applied), ``shown_at``, ``claimed_at`` and more; the functions of
            `toolkit.rewards`, such as ``funnel``, take this frame.
        """
        decisions = decision_frame(self._call(wire.GET_DECISIONS, "decisions", _ROWS))
        return decisions if devices is None else with_device_ids(decisions, devices)

    def reward_sessions(self) -> pd.DataFrame:
        """Return all reward sessions, oldest first (``GET /operator/rewards/sessions``).

        The columns are ``session_id``, ``at`` (UTC), ``app_key_sha256``, ``device`` (a label) and ``test``.
        """
        return decision_frame(self._call(wire.GET_REWARD_SESSIONS, "sessions", _ROWS), SESSION_COLUMNS)

    def reward_configuration(self) -> Configuration:
        """Return the rules of the reward engine (``GET /operator/rewards/configuration``), to begin a what-if."""
        return Configuration.parse(self._call(wire.GET_REWARD_CONFIGURATION, "configuration", dict))

    def clock(self) -> pd.Timestamp:
        """Return the gateway's time, in UTC (``GET /operator/clock``)."""
        return self._call_for_time(wire.GET_CLOCK)

    def advance(self, seconds: float) -> pd.Timestamp:
        """Advance the clock of ``Gateway.demo()`` and return its new time, in UTC (``POST /operator/clock``).

        A clock never goes back: `seconds` is 0 or more. Conflict if the gateway runs on the real clock.

        Examples
        --------
        >>> import toolkit
        >>> with toolkit.connect(toolkit.Gateway.demo()) as tk:
        ...     tk.operator.advance(300)
        Timestamp('2026-01-01 09:05:00+0000', tz='UTC')
        """
        if not 0 <= seconds < float("inf"):
            raise InvalidArgument(f"seconds must be 0 or more, not {seconds}: a clock only goes forward")
        return self._call_for_time(wire.ADVANCE_CLOCK, msgspec.json.encode({"seconds": float(seconds)}))

    def _call_for_time(self, endpoint: Endpoint, body: bytes | None = None) -> pd.Timestamp:
        return pd.Timestamp(self._call(endpoint, "now", int, body), unit="ms", tz="UTC")

    def _call(self, endpoint: Endpoint, field: str, kind: Any, body: bytes | None = None, **values: str) -> Any:  # noqa: ANN401
        """Return a field of a response (the whole object if "") as the type `kind`, or raise the error of a refusal."""
        if not all(values.values()):
            raise InvalidArgument("the name of a thing, a lock or a user must not be empty")
        if self._authorization is None:
            raise InvalidArgument(_KEY_MISSING_MESSAGE)
        reply = self._session.call(endpoint, values, body=body, headers={"Authorization": self._authorization})
        request = f"{endpoint.method} {endpoint.path_for(**values)}"
        is_refusal = reply.status >= 400
        try:
            fields = msgspec.json.decode(reply.body, type=dict[str, Any])
            if is_refusal:
                field, kind = "error", str
            content = msgspec.convert(fields[field] if field else fields, kind)
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            message = f"the response to {request} is not from the operator API of a gateway"
            raise UnexpectedReply(message) from None
        if is_refusal:
            raise wire.error_of(reply.status, content, request=request)
        return content


def _authorization(key: Secret) -> Secret:
    text = key.reveal().strip()  # a text read from the file ends with a line break
    if not (text.isascii() and text.isprintable() and text.split() == [text]):
        raise InvalidArgument("an operator key is one word of ASCII characters (the given one is not shown)")
    return Secret(f"Bearer {text}")
