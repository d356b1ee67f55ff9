"""Alert mails: as they are stored and as they are sent, by SMTP or into a folder.

Devices choose the text of a mail, so headers are encoded with `email.header.Header`, which does not parse the text.
`email.message.EmailMessage` would first decode it, and find headers inside an encoded word.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import smtplib
import ssl
from datetime import UTC, datetime
from email.charset import QP, Charset
from email.header import Header
from email.message import Message
from email.policy import compat32
from email.utils import format_datetime
from pathlib import Path
from typing import Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from toolkit.dweets import wire
from toolkit.dweets.service.storage import DamagedRecord, Record, mail_key
from toolkit.errors import InvalidArgument
from toolkit.local_files import write_whole
from toolkit.secret import Secret
from toolkit.worker_thread import WorkerThread

_MAX_SUBJECT_CHARACTERS = 200
# A run of these characters becomes one space, because a header is one line.
_WHITE_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f]+")
_SURROGATES = re.compile(r"[\ud800-\udfff]")
_PLAIN_HEADER = re.compile(r"(?!.*=\?)[ -~]*")  # without "=?", which begins an encoded word
_YEAR_10000_MILLISECONDS = 253_402_300_800_000

# ASCII lines that end in CR LF, which every mail server accepts.
_MAIL_POLICY = compat32.clone(linesep="\r\n", cte_type="7bit", mangle_from_=False)
_TEXT_CHARSET = Charset("utf-8")
_TEXT_CHARSET.body_encoding = QP

_SMTP_TIMEOUT_SECONDS = 20.0
#: How long the delivery of a mail is tried (RFC 5321, 4.5.4.1).
MAX_DELIVERY_DAYS = 5
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class NotDelivered(Exception):
    """The mail server certainly did not accept the mail: it refused the mail or was not reached."""

    def __init__(self, problem: str, *, is_permanent: bool = False) -> None:
        super().__init__(problem)
        #: Whether the server would refuse the mail again (RFC 5321, 4.2.1).
        self.is_permanent = is_permanent


class OutgoingMail(NamedTuple):
    name: str  # of the file, and in the Message-ID before the @
    sender: str
    recipients: list[str]
    content: bytes


class Mail(Record, frozen=True):
    id: str
    at: int
    thing: str
    to: list[str]
    subject: str
    text: str
    #: ``kept``: there is no mail server. ``uncertain``: the connection broke while the server received the mail.
    #: ``failed``: the server refused the mail permanently, or it could not be delivered for `MAX_DELIVERY_DAYS`.
    state: Literal["waiting", "sent", "kept", "uncertain", "failed"] = "waiting"
    #: How often a gateway has claimed the mail.
    attempts: int = 0
    error: str = ""
    #: A token of the gateway that is sending the mail; empty if no gateway is.
    lease: str = ""
    #: The time of the next attempt or the end of the lease, in milliseconds since the epoch.
    due: int = 0

    @classmethod
    def for_alert(cls, thing: str, sequence: int, at: int, to: list[str], message: str, text: str) -> Mail:
        subject = _WHITE_SPACE.sub(" ", _without_surrogates(f"Alert of {thing}: {message}")).strip(" ")
        subject = subject[:_MAX_SUBJECT_CHARACTERS].rstrip()
        return cls(f"{thing}:{sequence}", at, thing, to, subject, _without_surrogates(text))

    def check_for_key(self, key: str) -> None:
        if self.key != key:
            raise DamagedRecord("it belongs to another mail")
        check_recipients(self.to)
        if not 0 <= self.at < _YEAR_10000_MILLISECONDS:
            raise DamagedRecord("its time is out of range")

    @property
    def key(self) -> str:
        return mail_key(self.id)

    @property
    def is_finished(self) -> bool:
        return self.state != "waiting"

    def outgoing(self, sender: str) -> OutgoingMail:
        """Return the envelope and the bytes to send, the same at every attempt."""
        id_hash = hashlib.blake2b(self.id.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        name = f"{self.at}.{id_hash}"
        message: Message[Header, Header] = Message(_MAIL_POLICY)
        headers = {
            "From": sender,
            "To": ", ".join(self.to),
            "Subject": self.subject,
            "Date": format_datetime(datetime.fromtimestamp(self.at / 1000, UTC)),
            "Message-ID": f"<{name}@{sender.rpartition('@')[2]}>",
            "Auto-Submitted": "auto-generated",
        }
        for header, text in headers.items():
            charset = "us-ascii" if _PLAIN_HEADER.fullmatch(text) else "utf-8"
            message[header] = Header(text, charset, header_name=header)
        message.set_payload(self.text, _TEXT_CHARSET)
        return OutgoingMail(name, sender, self.to, message.as_bytes())


def check_recipients(addresses: list[str]) -> None:
    for address in addresses:
        if not wire.is_email_address(address):
            raise DamagedRecord(f"{address!a} is not an e-mail address")
    if not addresses:
        raise DamagedRecord("it has no recipient")


def _without_surrogates(text: str) -> str:
    return _SURROGATES.sub("\ufffd", text)


def check_mail_server(url: Secret) -> None:
    """Raise InvalidArgument if the URL of a mail server is wrong; no error shows the URL, which may hold a password."""
    try:
        parts = urlsplit(url.reveal())
        is_valid = parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidArgument("smtp: expected smtp://[user:password@]host[:port] or smtps://...")


class SmtpDelivery:
    """Delivers mails to ``smtp://[user:password@]host[:port]`` (with STARTTLS if offered) or ``smtps://...``.

    A password is sent only to this machine, or over TLS to a server whose certificate is valid.
    """

    final_state: Literal["sent"] = "sent"

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._tls = parts.scheme == "smtps"
        self._address = parts.hostname or "", parts.port or (465 if self._tls else 25)
        self._user = unquote(parts.username or "")
        self._password = Secret(unquote(parts.password or ""))
        self._is_local = parts.hostname in _LOCAL_HOSTS
        # Without a context smtplib checks no certificate.
        self._tls_context = ssl.create_default_context()
        if self._is_local or not (self._tls or self._user):  # opportunistic TLS, as between mail servers
            self._tls_context.check_hostname, self._tls_context.verify_mode = False, ssl.CERT_NONE

    async def deliver(self, mail: OutgoingMail) -> list[str]:
        """Deliver a mail and return the refused recipients.

        Raises NotDelivered, or OSError if the connection broke while the server received the text.
        """
        thread = WorkerThread("gateway-mail")
        delivering = thread.run(lambda: self._deliver(mail))
        thread.end(wait=False)  # so the process can end, even if a mail server never answers the thread
        return await delivering

    def _deliver(self, mail: OutgoingMail) -> list[str]:
        try:
            server, refused = self._send_envelope(mail)
        # smtplib's own errors are OSErrors; a host or password that it cannot encode is a ValueError.
        except (OSError, ValueError) as error:
            # A reply of the server may repeat the password, so only its code is shown.
            answer = f"it answered {error.smtp_code}" if isinstance(error, smtplib.SMTPResponseException) else None
            why = answer or getattr(error, "strerror", None) or type(error).__name__
            raise NotDelivered(f"the mail server could not be used: {why}") from None
        try:
            code, _ = server.data(mail.content)
        except smtplib.SMTPDataError as error:  # the server refused DATA itself
            code = error.smtp_code
        finally:
            with contextlib.suppress(OSError):  # a failing QUIT does not change the outcome
                server.quit()
            server.close()
        if code != 250:
            raise NotDelivered(f"the mail server refused the text with {code}", is_permanent=code >= 500)
        return refused

    def _send_envelope(self, mail: OutgoingMail) -> tuple[smtplib.SMTP, list[str]]:
        server: smtplib.SMTP
        if self._tls:
            server = smtplib.SMTP_SSL(*self._address, timeout=_SMTP_TIMEOUT_SECONDS, context=self._tls_context)
        else:
            server = smtplib.SMTP(*self._address, timeout=_SMTP_TIMEOUT_SECONDS)
        is_private = self._tls or self._is_local
        try:
            server.ehlo()
            if not self._tls and server.has_extn("starttls"):
                server.starttls(context=self._tls_context)
                server.ehlo()
                is_private = True
            if self._user:
                if not is_private:  # a man in the middle may have removed the offer of STARTTLS
                    raise NotDelivered("the mail server offers no STARTTLS, so the password was not sent")
                server.login(self._user, self._password.reveal())
            # With docmd, because mail() and rcpt() of smtplib parse an address and may send another one.
            code, _ = server.docmd("MAIL", f"FROM:<{mail.sender}>")
            if code != 250:
                raise NotDelivered(f"the mail server refused the sender {mail.sender} with {code}")
            codes = {to: server.docmd("RCPT", f"TO:<{to}>")[0] for to in mail.recipients}
            refused = [to for to, code in codes.items() if code not in (250, 251)]
            if len(refused) == len(mail.recipients):
                numbers = ", ".join(map(str, sorted(set(codes.values()))))
                is_permanent = min(codes.values()) >= 500
                raise NotDelivered(f"the mail server refused every recipient with {numbers}", is_permanent=is_permanent)
        except BaseException:
            server.close()
            raise
        return server, refused


class MailFolder:
    """Keeps mails as ``.eml`` files in a folder; the first mail creates the folder."""

    final_state: Literal["kept"] = "kept"

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def deliver(self, mail: OutgoingMail) -> list[str]:
        try:  # a mail has the same name at every attempt, so another attempt replaces the file
            await asyncio.to_thread(self._write, f"{mail.name}.eml", mail.content)
        except OSError as error:
            raise NotDelivered(f"the folder {self._folder} cannot be written: {error.strerror}") from None
        return []

    def _write(self, name: str, text: bytes) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._folder / name, text, 0o600)


MailDelivery = SmtpDelivery | MailFolder
