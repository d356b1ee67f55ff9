"""Mail servers on this machine: a real one with configurable behaviour, and a broken one."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope, LoginPassword, Session

from tests.ports import free_port


def eventually(check: Callable[[], bool], seconds: float = 60.0, said: str = "it did not come true") -> None:
    """Return once the check holds; after `seconds` it fails with what is `said`."""
    pause = threading.Event()
    for _ in range(int(seconds / 0.02)):
        if check():
            return
        pause.wait(0.02)
    raise AssertionError(f"{said} within {seconds:.0f} seconds")


class MailServer:
    """Keeps what it is sent.

    Parameters
    ----------
    port
        Where to listen; a free one if None.
    refuse_text, refuse_recipient
        Answers in place of taking the text, or a recipient.
    refuse_password
        Refuses each password, with an answer that repeats it.
    tls
        With it the server offers STARTTLS. It always offers AUTH, and keeps the passwords that it was sent.
    """

    def __init__(
        self,
        port: int | None = None,
        *,
        refuse_text: str = "",
        refuse_recipient: str | tuple[str, ...] = "",
        refuse_password: bool = False,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.port = port or free_port()
        self.mails: list[Envelope] = []
        self.refuse_text = refuse_text
        self.refuse_recipient = refuse_recipient
        self.refuse_password = refuse_password
        self.passwords: list[bytes] = []
        self._controller = Controller(
            self,
            hostname="127.0.0.1",
            port=self.port,
            ready_timeout=60,
            authenticator=self._authenticate,
            auth_require_tls=False,
            tls_context=tls,
        )

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"

    def _authenticate(
        self, server: Any, session: Session, envelope: Envelope, mechanism: str, given: LoginPassword
    ) -> AuthResult:
        self.passwords.append(given.password)
        answer = f"535 not {given.password.decode()}" if self.refuse_password else None
        return AuthResult(success=not self.refuse_password, handled=False, message=answer)

    async def handle_RCPT(  # noqa: N802
        self, server: Any, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if self.refuse_recipient and address.startswith(self.refuse_recipient):
            return "550 no such mailbox"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: Any, session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.refuse_text:
            return self.refuse_text
        self.mails.append(envelope)
        return "250 OK"

    def __enter__(self) -> MailServer:
        self._controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._controller.stop()


class BadServer:
    """A mail server that goes wrong at one step of each conversation, as `misbehave` says."""

    def __init__(self, at: bytes, misbehave: Callable[[socket.socket], object]) -> None:
        self._at, self._misbehave = at, misbehave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"smtp://127.0.0.1:{self._listener.getsockname()[1]}"
        self.texts = 0
        self.is_reached = threading.Event()

    def __enter__(self) -> BadServer:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):  # until the listener is closed
            while True:
                connection, _ = self._listener.accept()
                with connection, suppress(OSError):  # until the gateway ends the connection
                    self._converse(connection)

    def _converse(self, connection: socket.socket) -> None:
        lines = connection.makefile("rb")
        connection.sendall(b"220 hello\r\n")
        while line := lines.readline().lower():
            if line.startswith(b".\r\n"):
                self.texts += 1
            if line.startswith(self._at):
                self.is_reached.set()
                self._misbehave(connection)
                return
            if line.startswith((b"ehlo", b"mail", b"rcpt", b".\r\n")):
                connection.sendall(b"250 OK\r\n")
            elif line.startswith(b"data"):
                connection.sendall(b"354 go on\r\n")


def drip(connection: socket.socket) -> None:
    """Send a byte now and then, so that no time limit between two bytes ends the connection."""
    while not threading.Event().wait(0.05):
        connection.sendall(b"2")


def flood(connection: socket.socket) -> None:
    while True:
        connection.sendall(b"250-and more\r\n" * 1_000)
