"""A real SMTP server on this machine, whose behaviour a test sets."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
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
        refuse_recipient: str = "",
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
