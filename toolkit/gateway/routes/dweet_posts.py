"""Posts of one turn of the event loop, answered together: see `toolkit.gateway.exchange.Together`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from toolkit.dweets import wire
from toolkit.dweets.content import checked_content, content_of_form
from toolkit.dweets.service import DweetService
from toolkit.gateway.exchange import Call, Reply, Request, Together
from toolkit.gateway.stores import Entry


def posts_together(service: DweetService) -> Together:
    """Return what answers posts whose heads are known: all those to one thing are one batch."""

    def answer(calls: Sequence[Call]) -> None:
        batches: dict[str, _Batch] = {}
        for call in calls:
            thing, content_of = call.prepared
            try:
                content = content_of(call.body)
            except Exception as error:  # also a mistake of ours: it is about this one only
                call.refuse(error)
            else:
                batch = batches.get(thing) or batches.setdefault(thing, _Batch())
                batch.contents.append(content)
                batch.callers.append(call)
        for thing, batch in batches.items():
            try:
                # A head that came before has no key.
                done = service.post_all(thing, batch.contents, None)
            except Exception as error:  # also a mistake of ours: what other things were sent is on its way
                batch.refuse(error)
            else:
                done.add_done_callback(batch.answer)

    return Together(_prepared, answer)


def content_of_body(request: Request) -> Callable[[bytes], bytes]:
    """Return what makes the content of a dweet from a body behind this head."""
    is_form = request.header(b"content-type").startswith("application/x-www-form-urlencoded")
    return content_of_form if is_form else checked_content


def receipt_of(dweet: Entry) -> Reply:
    """Write what a post answers."""
    return Reply(200, wire.posted(dweet.data, dweet.id))


def _prepared(request: Request) -> tuple[str, Callable[[bytes], bytes]]:
    return request.values["thing"], content_of_body(request)


class _Batch:
    """Posts to one thing."""

    def __init__(self) -> None:
        self.contents: list[bytes] = []
        self.callers: list[Call] = []

    def answer(self, done: asyncio.Future[list[Entry]]) -> None:
        """Answer all callers, each as soon as its answer is ready."""
        try:
            entries = done.result()
        except Exception as error:  # each caller is told, and what is no answer of ours is logged
            self.refuse(error)
            return
        for call, entry in zip(self.callers, entries, strict=True):
            try:
                call.hold(receipt_of(entry))
                call.send()
            except Exception as error:  # a mistake of ours at one of them leaves no other waiting
                call.refuse(error)

    def refuse(self, error: Exception) -> None:
        """Answer all callers with an error."""
        for call in self.callers:
            call.refuse(error)
