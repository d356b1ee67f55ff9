"""The outbox: alert mails that survive a crash, are retried, and are never sent twice for one opening.

A mail is written together with the alert's change. Before its text is handed to the mail server it is marked;
a gateway that dies between that mark and the server's answer cannot know whether the server took it, so such a
mail stays in the outbox as ``uncertain`` instead of being sent a second time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Protocol

from toolkit.dweets.locks import SPACE
from toolkit.gateway.stores import Records, StoreUnavailable

# Seconds before each further attempt; the last one is repeated.
WAITS = (1, 5, 30, 120, 600, 1800, 3600)
# Mails that are done with are kept to be looked at: so many, the newest.
DONE_KEPT = 1_000


class NotDelivered(Exception):
    """The mail server refused or could not be reached: it has not taken the mail for certain."""


class _TakenElsewhere(Exception):
    """Another gateway on the same store is sending this mail."""


class Postman(Protocol):
    """Brings mails to people, or keeps them where people look."""

    #: The state of a mail that was delivered: ``sent`` or ``kept``.
    delivered: str

    async def deliver(self, message: EmailMessage, before_text: Callable[[], object]) -> list[str]:
        """Deliver; call `before_text` in between, when the server is ready for the text.

        A postman who may deliver the same mail again without harm need not call it.

        Returns
        -------
        list of str
            The recipients that the server refused.

        Raises
        ------
        NotDelivered
            The server has not taken it.
        OSError
            The connection broke when the text was on its way.
        """
        ...


@dataclass(frozen=True, slots=True)
class Mail:
    """One alert mail.

    ``state`` is ``kept`` (no mail server: to be read here), ``waiting``, ``handing``, ``sent`` or ``uncertain``.
    """

    id: str
    at: int
    thing: str
    to: list[str]
    subject: str
    text: str
    state: str = "waiting"
    attempts: int = 0
    error: str = ""

    @classmethod
    def parse(cls, data: bytes) -> Mail:
        """Read a record of the store."""
        return cls(**json.loads(data))

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do or to find out about it."""
        return self.state in ("sent", "kept")

    def bytes(self) -> bytes:
        """Write it for the store."""
        return json.dumps(asdict(self)).encode("utf-8")

    def message(self, sender: str) -> EmailMessage:
        """Return it as an e-mail; its Message-ID is the same at every attempt."""
        # ASCII lines that end in CR LF: what every mail server takes without an extension.
        message = EmailMessage(policy=SMTP.clone(cte_type="7bit"))
        message["From"] = sender
        message["To"] = ", ".join(self.to)
        message["Subject"] = self.subject
        message["Date"] = format_datetime(datetime.fromtimestamp(self.at / 1000, UTC))
        digest = hashlib.blake2b(self.id.encode("utf-8"), digest_size=8).hexdigest()
        message["Message-ID"] = f"<{self.at}.{digest}@{sender.rpartition('@')[2]}>"
        message["Auto-Submitted"] = "auto-generated"
        message.set_content(self.text)
        return message


class Outbox:
    """All alert mails of one gateway.

    Parameters
    ----------
    records
        Where the mails are kept, beside their alerts.
    postman
        Sends them; None keeps them to be read.
    sender
        The address they come from.
    """

    def __init__(self, records: Records, postman: Postman | None, sender: str) -> None:
        self._records = records
        self._postman = postman
        self._sender = sender
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._done: dict[str, tuple[int, str]] = {}
        self._unwatch: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Take up every mail that is not sent yet."""
        for mail in await self.mails():
            if mail.state == "handing":
                await self._change(
                    mail, replace(mail, state="uncertain", error="the gateway stopped at handing it over")
                )
        self._unwatch = await self._records.watch(SPACE, self._mirror)

    async def close(self) -> None:
        """Stop sending; what waits is sent after the next start."""
        self._unwatch()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def mails(self) -> list[Mail]:
        """Return all mails, of those sent or kept the last thousand, oldest first."""
        found = await self._records.scan(SPACE)
        mails = [Mail.parse(value) for key, value in found.items() if key.startswith("mail:")]
        return sorted(mails, key=_age)

    def _mirror(self, key: str, value: bytes | None) -> None:
        if not key.startswith("mail:"):
            return
        mail = Mail.parse(value) if value is not None else None
        if mail is None or not mail.is_done:
            self._done.pop(key, None)
        else:
            self._done[key] = _age(mail)
        if mail is not None and mail.state == "waiting" and key not in self._tasks:
            task = self._tasks[key] = asyncio.ensure_future(self._send(mail))
            task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def _send(self, mail: Mail) -> None:
        if self._postman is None:
            await self._put(replace(mail, state="kept"))
            return
        while mail.state == "waiting":
            if mail.attempts:
                await asyncio.sleep(WAITS[min(mail.attempts, len(WAITS)) - 1])
            mail = await self._attempt(mail, self._postman)
            if mail.state != "handing":
                await self._put(mail)

    async def _attempt(self, mail: Mail, postman: Postman) -> Mail:
        handing = replace(mail, state="handing", attempts=mail.attempts + 1)
        loop = asyncio.get_running_loop()

        def mark() -> None:
            # Called in the postman's thread: the text goes out only once the mark is on disk.
            if not asyncio.run_coroutine_threadsafe(self._change(mail, handing), loop).result(timeout=30):
                raise _TakenElsewhere

        try:
            refused = await postman.deliver(mail.message(self._sender), mark)
        except _TakenElsewhere:
            return handing
        except (NotDelivered, StoreUnavailable) as error:  # without the mark the text was not handed over either
            return replace(handing, state="waiting", error=str(error))
        except OSError as error:
            return replace(handing, state="uncertain", error=f"the connection broke at handing it over: {error}")
        return replace(handing, state=postman.delivered, error=f"refused: {', '.join(refused)}" if refused else "")

    async def _put(self, mail: Mail) -> None:
        while True:
            try:
                return await self._keep(mail)
            except StoreUnavailable:  # what happened to a mail must not be forgotten: say it once the store is back
                await asyncio.sleep(WAITS[0])

    async def _keep(self, mail: Mail) -> None:
        changes: dict[str, bytes | None] = {f"mail:{mail.id}": mail.bytes()}
        surplus = len(self._done) + mail.is_done - DONE_KEPT
        if surplus > 0:
            changes.update(dict.fromkeys(sorted(self._done, key=self._done.__getitem__)[:surplus]))
        await self._records.swap(SPACE, {}, changes)

    async def _change(self, mail: Mail, after: Mail) -> bool:
        name = f"mail:{mail.id}"
        return await self._records.swap(SPACE, {name: mail.bytes()}, {name: after.bytes()})


def _age(mail: Mail) -> tuple[int, str]:
    return mail.at, mail.id
