"""Alert mails: their records and their bytes.

Devices choose the text of a mail, so headers are encoded with `email.header.Header`, which does not parse the text.
`email.message.EmailMessage` would first decode it, and find headers inside an encoded word.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from email.charset import QP, Charset
from email.header import Header
from email.message import Message
from email.policy import compat32
from email.utils import format_datetime

from toolkit.dweets import wire
from toolkit_gateway.dweets.stored_records import DamagedRecord, Record, mail_key

_MAX_SUBJECT_CHARACTERS = 200
# A run of these characters becomes one space, because a header is one line.
_WHITE_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_PLAIN_HEADER = re.compile(r"(?!.*=\?)[ -~]*")  # without "=?", which begins an encoded word
_YEAR_10000_MILLISECONDS = 253_402_300_800_000

# ASCII lines that end in CR LF, which every mail server accepts.
_MAIL_POLICY = compat32.clone(linesep="\r\n", cte_type="7bit", mangle_from_=False)
_TEXT_CHARSET = Charset("utf-8")
_TEXT_CHARSET.body_encoding = QP


class Mail(Record, frozen=True):
    id: str
    at: int
    thing: str
    to: list[str]
    subject: str
    text: str
    #: ``waiting``, or how it ended: ``sent``, ``kept`` (no mail server) or ``failed``. An unknown state of another
    #: version of the gateway is also an end.
    state: str = "waiting"
    #: How often a gateway has claimed the mail.
    attempts: int = 0
    error: str = ""
    #: A token of the gateway that is sending the mail; empty if no gateway is.
    lease: str = ""
    #: The time of the next attempt or the end of the lease, in milliseconds since the epoch.
    due: int = 0

    @classmethod
    def for_alert(cls, thing: str, sequence: int, at: int, to: list[str], message: str, text: str) -> Mail:
        subject = _WHITE_SPACE.sub(" ", f"Alert of {thing}: {message}").strip(" ")
        subject = subject[:_MAX_SUBJECT_CHARACTERS].rstrip()
        return cls(f"{thing}:{sequence}", at, thing, to, subject, text)

    def check_for_key(self, key: str) -> None:
        if self.key != key:
            raise DamagedRecord("it belongs to another mail")
        check_recipients(self.to)
        if not (0 <= self.at < _YEAR_10000_MILLISECONDS and 0 <= self.due < _YEAR_10000_MILLISECONDS):
            raise DamagedRecord("its time is out of range")
        if self.attempts < 0:
            raise DamagedRecord("its number of attempts is negative")

    @property
    def key(self) -> str:
        return mail_key(self.id)

    @property
    def name(self) -> str:
        """The name of its file, and in its Message-ID before the @."""
        return f"{self.at}.{hashlib.blake2b(self.id.encode(), digest_size=8).hexdigest()}"

    def content(self, sender: str) -> bytes:
        """Return the bytes to send, with the same Message-ID at every attempt."""
        message: Message[Header, Header] = Message(_MAIL_POLICY)
        headers = {
            "From": sender,
            "To": ", ".join(self.to),
            "Subject": self.subject,
            "Date": format_datetime(datetime.fromtimestamp(self.at / 1000, UTC)),
            "Message-ID": f"<{self.name}@{sender.rpartition('@')[2]}>",
            "Auto-Submitted": "auto-generated",
        }
        for header, text in headers.items():
            charset = "us-ascii" if _PLAIN_HEADER.fullmatch(text) else "utf-8"
            message[header] = Header(text, charset, header_name=header)
        message.set_payload(self.text, _TEXT_CHARSET)
        return message.as_bytes()


def check_recipients(addresses: list[str]) -> None:
    for address in addresses:
        if not wire.is_email_address(address):
            raise DamagedRecord(f"{address!a} is not an e-mail address")
    if not addresses:
        raise DamagedRecord("it has no recipient")
