"""One alert mail, as the store keeps it and as it is sent.

A device chooses the text of a mail, so no text is ever parsed on its way into a header: each header is encoded by
`email.header.Header`, and the envelope has the addresses themselves instead of what a parser reads in a header.
`email.message.EmailMessage` would decode the text first, and take headers out of an encoded word in it.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from email.charset import QP, Charset
from email.header import Header
from email.message import Message
from email.policy import compat32
from email.utils import format_datetime
from typing import NamedTuple

from toolkit.dweets import wire
from toolkit.dweets.stored_records import DamagedRecord, read_record

_SUBJECT_CHARACTERS = 200
# White space, line ends of any kind and control characters: a header is one line.
_BREAKS = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_PLAIN = re.compile(r"(?!.*=\?)[ -~]*")
_YEAR_10000 = 253_402_300_800_000

# ASCII lines that end in CR LF: what every mail server takes without an extension.
_POLICY = compat32.clone(linesep="\r\n", cte_type="7bit", mangle_from_=False)
_TEXT = Charset("utf-8")
_TEXT.body_encoding = QP


class NotSendable(Exception):
    """The mail can never be sent; the message says why."""


class OutgoingMail(NamedTuple):
    """A mail as it goes to a server: its envelope, and its bytes."""

    name: str
    sender: str
    recipients: list[str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Mail:
    """One alert mail.

    ``state`` is ``kept`` (no mail server: to be read here), ``waiting``, ``handing``, ``sent``, ``uncertain`` or
    ``unsendable`` (a recipient is no address).
    ``owner`` is the lease of the gateway that is at it or was at it last, ``due`` when it is tried again.
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
    owner: str = ""
    due: int = 0

    @classmethod
    def about(cls, thing: str, sequence: int, at: int, to: list[str], message: str, text: str) -> Mail:
        """Return the mail about one dweet of a thing, whose alert says `message`."""
        subject = _one_line(f"Alert of {thing}: {message}")[:_SUBJECT_CHARACTERS].rstrip()
        return cls(f"{thing}:{sequence}", at, thing, to, subject, _well_formed(text))

    @classmethod
    def parse(cls, key: str, data: bytes) -> Mail:
        """Read a record of the store, or raise DamagedRecord."""
        mail = read_record(cls, data)
        if mail.key != key:
            raise DamagedRecord("it is the record of another mail")
        if mail.state not in _STATES or not 0 <= mail.at < _YEAR_10000:
            raise DamagedRecord("its state or time cannot be")
        to = [_well_formed(address) for address in mail.to]
        thing, subject, text = map(_well_formed, (mail.thing, mail.subject, mail.text))
        return replace(mail, thing=thing, to=to, subject=subject, text=text)

    @property
    def key(self) -> str:
        """Where the store keeps it."""
        return f"mail:{self.id}"

    @property
    def is_done(self) -> bool:
        """Whether nothing is left to do or to find out about it."""
        return self.state in ("sent", "kept", "unsendable")

    def bytes(self) -> bytes:
        """Write it for the store."""
        return json.dumps(asdict(self)).encode("utf-8")

    def outgoing(self, sender: str) -> OutgoingMail:
        """Return it as it goes to a server; its Message-ID is the same at every attempt.

        Raises
        ------
        NotSendable
            A recipient is no e-mail address.
        """
        for address in self.to:
            if not wire.is_address(address):
                raise NotSendable(f"not sent: {address!a} is not an e-mail address")
        if not self.to:
            raise NotSendable("not sent: it has no recipient")
        digest = hashlib.blake2b(self.id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        name = f"{self.at}.{digest}"
        return OutgoingMail(name, sender, self.to, _content_of(self, sender, f"<{name}@{sender.rpartition('@')[2]}>"))


_STATES = ("waiting", "handing", "sent", "kept", "uncertain", "unsendable")


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", _well_formed(text)).strip(" ")


def _well_formed(text: str) -> str:
    return _SURROGATES.sub("\ufffd", text)


def _content_of(mail: Mail, sender: str, message_id: str) -> bytes:
    message: Message[Header, Header] = Message(_POLICY)
    headers = {
        "From": sender,
        "To": ", ".join(mail.to),
        "Subject": _one_line(mail.subject),
        "Date": format_datetime(datetime.fromtimestamp(mail.at / 1000, UTC)),
        "Message-ID": message_id,
        "Auto-Submitted": "auto-generated",
    }
    for name, text in headers.items():
        message[name] = Header(text, "us-ascii" if _PLAIN.fullmatch(text) else "utf-8", header_name=name)
    message.set_payload(_well_formed(mail.text), _TEXT)
    return message.as_bytes()
