"""Requests of thing messaging: names are checked before a request is sent, and responses are unwrapped."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import orjson

from toolkit.dweets import wire
from toolkit.dweets.checked_values import Key, checked_name
from toolkit.endpoint import Endpoint
from toolkit.errors import NotFound, ToolkitError, UnexpectedReply, counted, warn_caller
from toolkit.http_client import HttpReply, HttpSession, HttpStream, StrOrSecret
from toolkit.secret import Secret
from toolkit.system.nearest_name import missing_names, nearest_name

Query = Mapping[str, StrOrSecret | None]


class Answer(NamedTuple):
    """The data of a success response, and what its headers say."""

    data: Any
    deleted: wire.DeletedDweets | None  #: may be in the requested range; None: no such
    keeps_mails: bool = False  #: there is no mail server


class DweetCalls:
    """Sends requests to a server of thing messaging (section A of the specification)."""

    def __init__(self, session: HttpSession) -> None:
        self.session = session
        #: How many dweets of a thing the server keeps; None before the first response of the server.
        self.retention: int | None = None

    def call(
        self,
        endpoint: Endpoint,
        values: Mapping[str, str],
        key: Key = None,
        query: Query | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send a request, or raise the error of its response."""
        values = {name: checked_name(value) if name == "thing" else value for name, value in values.items()}
        content_type = "application/x-ndjson" if endpoint is wire.POST_DWEETS else "application/json"
        headers: dict[str, StrOrSecret] = {} if body is None else {"Content-Type": content_type}
        reply = self.session.call(endpoint, values, query=_with_key(key, query), body=body, headers=headers)
        data = _data_of(reply, f"{endpoint.method} {endpoint.path_for(**values)}", key)
        retention = reply.headers.get(wire.RETENTION_HEADER.lower(), "")
        self.retention = int(retention) if retention.isascii() and retention.isdigit() else self.retention
        deleted = wire.DeletedDweets.parse(reply.headers.get(wire.GONE_HEADER.lower()))
        return Answer(data, deleted, reply.headers.get(wire.MAIL_HEADER.lower()) == wire.MAIL_KEPT)

    def records(self, endpoint: Endpoint, thing: str, key: Key, query: Query | None = None) -> list[dict[str, Any]]:
        """Return records, oldest first; warn of deleted dweets that may be in the requested range, or of no dweet."""
        records, deleted = self.records_and_deleted(endpoint, thing, key, query)
        if deleted is not None:
            self.warn_of_deleted({thing: deleted})
        elif not records and (query is None or not self.has_dweet(thing, key)):
            warn_caller(self.no_dweet_text([thing]))
        return records

    def has_dweet(self, thing: str, key: Key) -> bool:
        """Ask for the latest dweet."""
        return bool(self.records_and_deleted(wire.GET_LATEST, thing, key)[0])

    def no_dweet_text(self, things: Sequence[str], asked: int = 1) -> str:
        """Return the sentence about things without a dweet, with the nearest name among the public things."""
        return missing_names("the gateway has no dweet of", "thing", things, asked, self._public_things(without=things))

    def misspelt_text(self, thing: str) -> str:
        """Return the sentence about a thing without a dweet if a public thing has nearly its name, else nothing."""
        public = self._public_things(without=[thing])
        return (
            missing_names("the gateway has no dweet of", "thing", [thing], 1, public)
            if nearest_name(thing, public)
            else ""
        )

    def _public_things(self, without: Sequence[str]) -> list[str]:
        """Return the public things; one of `without` may have got its first dweet in the meantime."""
        with suppress(ToolkitError):  # the listing only improves a sentence, and other servers may have none
            return [entry["thing"] for entry in self.active_things() if entry["thing"] not in without]
        return []

    def records_and_deleted(
        self, endpoint: Endpoint, thing: str, key: Key, query: Query | None = None
    ) -> tuple[list[dict[str, Any]], wire.DeletedDweets | None]:
        """Return records, oldest first, and the deleted dweets as in `Answer`; no records for an unknown thing."""
        try:
            answer = self.call(endpoint, {"thing": thing}, key, query)
        except NotFound:
            return [], None
        return checked_records(answer.data)[::-1], answer.deleted

    def warn_of_deleted(self, by_thing: Mapping[str, wire.DeletedDweets]) -> None:
        """Warn that the server has deleted dweets of these things, with the one that lost most as the example."""
        thing, deleted = max(by_thing.items(), key=lambda item: item[1].number)
        more = f", the most of {len(by_thing):,} things" if len(by_thing) > 1 else ""
        warn_caller(
            f"the gateway has deleted {counted(deleted.number, 'dweet')} of {thing!r}{more}, all before "
            f"{deleted.before}; "
            f"some may be missing here: the gateway keeps little more than the last {self.retention or 0:,} dweets of "
            "a thing. Keep more with Gateway(keep=...) or --keep, or all of them in an archive"
        )

    def post_rows(self, thing: str, contents: Iterable[bytes], key: Key) -> list[dict[str, Any]]:
        """Post contents in one request and return their receipts."""
        return checked_records(self.call(wire.POST_DWEETS, {"thing": thing}, key, body=b"\n".join(contents)).data)

    def active_things(self) -> list[dict[str, str]]:
        """Return the public things that were active last; the keywords of each thing are one comma-separated text."""
        data = self.call(wire.GET_STATS, {}).data
        try:
            things = data["active_things"]
            return [{"thing": entry["thing"], "keywords": ", ".join(entry["keywords"])} for entry in things]
        except (KeyError, TypeError):
            raise UnexpectedReply("the response does not hold active things") from None

    def stream(self, thing: str, key: Key, since: int | None) -> HttpStream:
        """Open the live stream of a thing with the dweets after the sequence number `since`; None: new dweets only."""
        values, headers = {"thing": checked_name(thing)}, {"Accept": "text/event-stream"}
        query = _with_key(key, {"since": None if since is None else str(since)})
        reply = self.session.stream(wire.LISTEN, values, query=query, headers=headers)
        if isinstance(reply, HttpReply):
            _data_of(reply, f"GET {wire.LISTEN.path_for(**values)}", key)
            raise UnexpectedReply("the response to listen is not a stream")
        if "text/html" in reply.content_type:  # the page would end at once, after each reconnection again
            reply.close()
            raise UnexpectedReply(f"the response to {wire.LISTEN} is a web page, not a stream of dweets")
        return reply


def _with_key(key: Key, query: Query | None) -> Query:
    return {**(query or {}), "key": None if key is None else Secret(key)}


def checked_records(records: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Return `records` unchanged, or raise UnexpectedReply if they are not a list of dweets."""
    try:
        kinds = {(type(record["thing"]), type(record["created"]), "content" in record) for record in records}
        if type(records) is list and kinds <= {(str, str, True)}:
            return records
    except (KeyError, TypeError):
        pass
    raise UnexpectedReply("the response does not hold dweets with thing, created and content")


def _data_of(reply: HttpReply, request: str, key: Key) -> Any:  # noqa: ANN401
    """Return the data of a success response; raise the error of a failure response."""
    try:
        envelope = orjson.loads(reply.body)
        outcome = envelope["this"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise UnexpectedReply(f"the response to {request} (HTTP {reply.status}) is not from a dweet service") from None
    if outcome == "failed":
        error = wire.error_of(envelope, request=request)
        if error.message == wire.KEY_NEEDED and key is None:
            error.message += ": give its key, with key= in Python, --key or $TOOLKIT_KEY for a command"
        raise error
    if outcome != "succeeded" or "with" not in envelope:
        raise UnexpectedReply(f"the response to {request} neither succeeded nor failed")
    return envelope["with"]
