"""One alert mail, as the store keeps it and as it is sent."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime


@dataclass(frozen=True, slots=True)
class Mail:
    """One alert mail.

    ``state`` is ``kept`` (no mail server: to be read here), ``waiting``, ``handing``, ``sent`` or ``uncertain``.
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
    def parse(cls, data: bytes) -> Mail:
        """Read a record of the store."""
        return cls(**json.loads(data))

    @property
    def key(self) -> str:
        """Where the store keeps it."""
        return f"mail:{self.id}"

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
