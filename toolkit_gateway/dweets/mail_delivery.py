"""How a mail is delivered: by SMTP, or into a folder if there is no mail server.

A mail server may answer without end, so a child process talks to it, which is killed after a time limit. That process
imports this module.
"""

from __future__ import annotations

import asyncio
import smtplib
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple
from urllib.parse import unquote, urlsplit

from toolkit.errors import InvalidArgument
from toolkit.secret import Secret
from toolkit.system.files import write_whole
from toolkit.system.worker_process import WorkerDied, WorkerProcess, limit_memory, serve
from toolkit_gateway.worker_thread import WorkerThread

if TYPE_CHECKING:
    from toolkit_gateway.dweets.mail import Mail

_SECONDS_PER_REPLY = 20.0
_START_SECONDS = 5.0
_CHILD_BYTES = 64 * 1024 * 1024
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class Outcome(NamedTuple):
    """The new state of a mail after an attempt (``waiting``: try again), and what went wrong."""

    state: Literal["sent", "kept", "waiting", "failed"]
    error: str = ""


def check_mail_server(url: Secret) -> None:
    """Raise InvalidArgument if the URL of a mail server is wrong; no error shows the URL, which may hold a password."""
    try:
        parts = urlsplit(url.reveal())
        is_valid = parts.scheme in ("smtp", "smtps") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_valid = False
    if not is_valid:
        raise InvalidArgument("smtp: expected smtp://[user:password@]host[:port] or smtps://...")


class MailFolder:
    """Keeps mails as ``.eml`` files in a folder, which the first mail creates; without a folder, only in the store."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    async def deliver(self, mail: Mail, sender: str) -> Outcome:
        if self._folder is not None:
            try:
                await asyncio.to_thread(self._write, self._folder / f"{mail.name}.eml", mail.content(sender))
            except OSError as error:
                return Outcome("waiting", f"the folder {self._folder} cannot be written: {error.strerror}")
        return Outcome("kept")

    def _write(self, file: Path, content: bytes) -> None:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(file, content, 0o600)

    def close(self) -> None:
        pass


class SmtpDelivery:
    """Delivers mails to ``smtp://[user:password@]host[:port]`` (with STARTTLS if offered) or ``smtps://...``.

    A password is sent only to this machine, or over TLS to a server whose certificate is valid.
    """

    def __init__(self, url: Secret, seconds: float) -> None:
        self._url = url
        self._seconds = seconds
        self._process = WorkerProcess(__name__, Outcome)
        self._thread = WorkerThread("gateway-mail")

    async def deliver(self, mail: Mail, sender: str) -> Outcome:
        job = self._url.reveal(), sender, mail.to, mail.content(sender)
        # A child that starts slowly must also be killed before another gateway can claim the mail.
        killing = asyncio.get_running_loop().call_later(self._seconds + _START_SECONDS, self._process.kill)
        try:
            answers = await self._thread.run(lambda: self._process.do(job, self._seconds))
        except WorkerDied as died:
            # With an answer, only the end of the connection failed, and the outcome is known.
            answers = died.answers or [Outcome("waiting", f"the mail was not delivered: {died}")]
        finally:
            killing.cancel()
        outcome: Outcome = answers[0]
        return outcome

    def close(self) -> None:
        """End at once, also a delivery that has begun."""
        self._process.stop()
        self._thread.end()
        self._process.close()


def main() -> None:
    limit_memory(_CHILD_BYTES, for_good=True)
    serve(send)


def send(job: tuple[str, str, list[str], bytes]) -> Iterator[Outcome]:
    """Send a mail, and yield the outcome before the connection ends: QUIT can fail, or hang, without changing it."""
    url, sender, recipients, content = job
    try:
        with _connection(url) as server:
            refused = server.sendmail(sender, recipients, content)
            yield Outcome("sent", f"refused: {', '.join(refused)}" if refused else "")
            with suppress(OSError):
                server.quit()
    except smtplib.SMTPRecipientsRefused as error:
        codes = sorted({code for code, _ in error.recipients.values()})
        yield _refusal(f"every recipient with {', '.join(map(str, codes))}", codes[0])
    except smtplib.SMTPDataError as error:
        yield _refusal(f"the text with {error.smtp_code}", error.smtp_code)
    # Errors of smtplib are OSErrors; a host or password that it cannot encode is a ValueError.
    except (OSError, ValueError) as error:
        # A reply of the server may repeat the password, so only its code is shown.
        why = getattr(error, "strerror", None) or type(error).__name__
        if isinstance(error, smtplib.SMTPResponseException):
            why = f"it answered {error.smtp_code}"
        elif isinstance(error, smtplib.SMTPNotSupportedError):
            why = str(error)
        yield Outcome("waiting", f"the mail server could not be used: {why}")


def _refusal(what: str, code: int) -> Outcome:
    # The server would refuse it again after a code from 500 on (RFC 5321, 4.2.1).
    return Outcome("failed" if code >= 500 else "waiting", f"the mail server refused {what}")


@contextmanager
def _connection(url: str) -> Iterator[smtplib.SMTP]:
    """Open a connection that is encrypted if the server can do that, and logged in."""
    parts = urlsplit(url)
    user, password, host = unquote(parts.username or ""), unquote(parts.password or ""), parts.hostname or ""
    has_tls, is_local = parts.scheme == "smtps", host in _LOCAL_HOSTS
    context = ssl.create_default_context()  # without a context smtplib checks no certificate
    if is_local or not (has_tls or user):  # opportunistic TLS, as between mail servers
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    server: smtplib.SMTP
    if has_tls:
        server = smtplib.SMTP_SSL(host, parts.port or 465, timeout=_SECONDS_PER_REPLY, context=context)
    else:
        server = smtplib.SMTP(host, parts.port or 25, timeout=_SECONDS_PER_REPLY)
    with closing(server):
        server.ehlo_or_helo_if_needed()
        # A man in the middle can remove the offer of STARTTLS; then this raises, before the password is sent.
        if not has_tls and (server.has_extn("starttls") or (user and not is_local)):
            server.starttls(context=context)
        if user:
            server.login(user, password)
        yield server
