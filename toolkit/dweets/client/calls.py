"""Requests of thing messaging: names are checked before a request is sent, and responses are unwrapped."""

from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from toolkit.dweets import wire
from toolkit.dweets.arguments import Key, checked_name
from toolkit.endpoint import Endpoint
from toolkit.errors import NotFound, UnexpectedReply, counted, warn_caller
from toolkit.http_client import HttpReply, HttpSession, HttpStream, StrOrSecret
from toolkit.secret import Secret

Query = Mapping[str, StrOrSecret | None]


class Answer(NamedTuple):
    """The data of a success response, and which dweets the server has deleted, if that concerns the requested range."""

    data: Any
    deleted: wire.DeletedDweets | None


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
        data = _data_of(reply, f"{endpoint.method} {endpoint.path_for(**values)}")
        told = reply.headers.get(wire.RETENTION_HEADER.lower(), "")
        self.retention = int(told) if told.isascii() and told.isdigit() else self.retention
        return Answer(data, wire.DeletedDweets.parse(reply.headers.get(wire.GONE_HEADER.lower())))

    def records(self, endpoint: Endpoint, thing: str, key: Key, query: Query | None = None) -> list[dict[str, Any]]:
        """Return records, oldest first; warn if the server has deleted dweets that may be in the requested range."""
        records, deleted = self.records_and_deleted(endpoint, thing, key, query)
        if deleted is not None:
            self.warn_of_deleted(deleted, thing)
        return records

    def records_and_deleted(
        self, endpoint: Endpoint, thing: str, key: Key, query: Query | None = None
    ) -> tuple[list[dict[str, Any]], wire.DeletedDweets | None]:
        """Return records, oldest first, and which dweets the server has deleted; no records for an unknown thing."""
        try:
            found, deleted = self.call(endpoint, {"thing": thing}, key, query)
        except NotFound:
            return [], None
        return checked_records(found)[::-1], deleted

    def warn_of_deleted(self, deleted: wire.DeletedDweets, thing: str) -> None:
        """Warn that the server has deleted dweets of a thing."""
        warn_caller(
            f"the gateway has deleted {counted(deleted.number, 'dweet')} of {thing!r}, all before {deleted.before}; "
            f"some may be missing here: the gateway keeps little more than the last {self.retention or 0:,} dweets of "
            "a thing. Keep more with Gateway(keep=...) or --keep, or all of them in an archive"
        )

    def post_rows(self, thing: str, contents: Iterable[bytes], key: Key) -> list[dict[str, Any]]:
        """Post contents in one request and return their receipts."""
        return checked_records(self.call(wire.POST_DWEETS, {"thing": thing}, key, body=b"\n".join(contents)).data)

    def active_things(self) -> list[dict[str, str]]:
        """Return the public things that were active last, with their keywords as one text."""
        found = self.call(wire.GET_STATS, {}).data
        try:
            things = found["active_things"]
            return [{"thing": each["thing"], "keywords": ", ".join(each["keywords"])} for each in things]
        except (KeyError, TypeError):
            raise UnexpectedReply("the response does not hold active things") from None

    def stream(self, thing: str, key: Key, since: int | None) -> HttpStream:
        """Open the live stream of a thing, from after the sequence number `since`; None for new dweets only."""
        values, headers = {"thing": checked_name(thing)}, {"Accept": "text/event-stream"}
        query = _with_key(key, {"since": None if since is None else str(since)})
        reply = self.session.stream(wire.LISTEN, values, query=query, headers=headers)
        if isinstance(reply, HttpReply):
            _data_of(reply, f"GET {wire.LISTEN.path_for(**values)}")
            raise UnexpectedReply("the response to listen is not a stream")
        if "text/html" in reply.content_type:  # it would end at once, again and again
            reply.close()
            raise UnexpectedReply(f"the response to {wire.LISTEN} is a web page, not a stream of dweets")
        return reply


def _with_key(key: Key, query: Query | None) -> Query:
    return {**(query or {}), "key": None if key is None else Secret(key)}


def checked_records(found: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Return `found` unchanged, or raise UnexpectedReply if it is not a list of dweets."""
    try:
        # Check by column: a loop over hundreds of records would take much of the time of the call.
        things, times, _ = (list(map(itemgetter(name), found)) for name in wire.DWEET_FIELDS)
        if type(found) is list and {*map(type, things), *map(type, times)} <= {str}:
            return found
    except (KeyError, TypeError):
        pass
    raise UnexpectedReply("the response does not hold dweets with thing, created and content")


def _data_of(reply: HttpReply, request: str) -> Any:  # noqa: ANN401
    """Return the data of a success response; raise the error of a failure response."""
    try:
        envelope = orjson.loads(reply.body)
        outcome = envelope["this"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise UnexpectedReply(f"the response to {request} (HTTP {reply.status}) is not from a dweet service") from None
    if outcome == "failed":
        raise wire.error_of(envelope, request=request)
    if outcome != "succeeded" or "with" not in envelope:
        raise UnexpectedReply(f"the response to {request} neither succeeded nor failed")
    return envelope["with"]
