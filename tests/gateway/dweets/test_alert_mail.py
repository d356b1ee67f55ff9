"""Alert mails to a real SMTP server: sent, retried while it is away, and not lost in a crash."""

from __future__ import annotations

import asyncio
import email
import email.policy
import shutil
import socket
import ssl
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import Envelope

import toolkit
from tests.conftest import operator_of
from tests.gateway_process import GatewayProcess
from tests.mail_server import BadServer, MailServer, drip, eventually, flood
from tests.ports import free_port
from toolkit.secret import Secret
from toolkit_gateway import Gateway, SteppedClock
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.dweets.mail_delivery import Outcome, SmtpDelivery
from toolkit_gateway.runtime import Timings

LOCKS = {"garage-lock": "master-of-the-garage"}
QUICK = Timings(mail_waits=(0.01, 0.05), mail_lease=1.0)
KEY = LOCKS["garage-lock"]


def arm(tk: toolkit.Connection, who: str = "a@b.example", condition: str = "return dweet") -> None:
    tk.dweets.lock("garage", lock="garage-lock", key=KEY)
    tk.dweets.set_alert("garage", who=who, condition=condition, key=KEY)


def post(tk: toolkit.Connection, *contents: str) -> None:
    for content in contents:
        tk.dweets.post("garage", content, key=KEY)


def message_of(envelope: Envelope) -> EmailMessage:
    assert isinstance(envelope.content, bytes)
    return email.message_from_bytes(envelope.content, policy=email.policy.default)


def states(gateway: Gateway) -> list[str]:
    found: list[str] = operator_of(gateway).outbox()["state"].tolist()
    return found


def errors(gateway: Gateway) -> list[str]:
    found: list[str] = operator_of(gateway).outbox()["error"].tolist()
    return found


def test_mail_arrives_once_and_is_readable() -> None:
    with MailServer() as server, Gateway(smtp=server.url, locks=LOCKS) as gateway, toolkit.connect(gateway) as tk:
        arm(tk, "a@b.example, c@d.example")
        tk.dweets.post("garage", "ü: open\n.\n.hidden line", key=KEY)
        tk.dweets.post("garage", "ü: open\n.\n.hidden line", key=KEY)
        eventually(lambda: states(gateway) == ["sent"])
        (envelope,) = server.mails
        (kept,) = operator_of(gateway).outbox().to_dict("records")
    assert envelope.mail_from == "alerts@gateway.invalid"
    assert envelope.rcpt_tos == ["a@b.example", "c@d.example"]
    message = message_of(envelope)
    assert message["Subject"] == "Alert of garage: ü: open . .hidden line" == kept["subject"]
    assert message.get_content().replace("\r\n", "\n") == kept["text"]
    assert message["To"] == "a@b.example, c@d.example"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Message-ID"].endswith("@gateway.invalid>")
    assert KEY not in str(envelope.content)
    assert kept["error"] == ""


def test_a_mail_is_retried_until_the_server_accepts_it() -> None:
    port = free_port()
    smtp = f"smtp://127.0.0.1:{port}"
    with Gateway(smtp=smtp, locks=LOCKS, timings=QUICK) as gateway, toolkit.connect(gateway) as tk:
        arm(tk)
        post(tk, "one")
        eventually(lambda: errors(gateway) == ["the mail server could not be used: Connection refused"])
        assert states(gateway) == ["waiting"]
        with MailServer(port, refuse_text="451 try later") as server:
            eventually(lambda: errors(gateway) == ["the mail server refused the text with 451"])
            assert states(gateway) == ["waiting"]
            server.refuse_text = ""
            eventually(lambda: states(gateway) == ["sent"])
            assert len(server.mails) == 1


def test_permanently_refused_mail_is_tried_once() -> None:
    rows: list[tuple[str | tuple[str, ...], str, str, str]] = [
        # recipients and text that the server refuses, what becomes of the mail
        ("nobody", "", "sent", "refused: nobody@b.example"),
        ("", "", "sent", ""),
        (("nobody", "a@"), "", "failed", "the mail server refused every recipient with 550"),
        ("", "554 this is spam", "failed", "the mail server refused the text with 554"),
    ]
    with MailServer() as server, Gateway(smtp=server.url, locks=LOCKS, timings=QUICK) as gateway:
        with toolkit.connect(gateway) as tk:
            arm(tk, "nobody@b.example,a@b.example")
            for number, (server.refuse_recipient, server.refuse_text, state, error) in enumerate(rows):
                post(tk, str(number))
                eventually(lambda: states(gateway)[number:] == [state])  # noqa: B023
                assert errors(gateway)[number] == error
            server.refuse_recipient, server.refuse_text = "", ""
            post(tk, "last")
            eventually(lambda: states(gateway)[-1] == "sent")
        arrived = [(message_of(mail)["Subject"].split()[-1], mail.rcpt_tos) for mail in server.mails]
    both = ["nobody@b.example", "a@b.example"]
    assert arrived == [("0", both[1:]), ("1", both), ("last", both)]


def test_a_mail_is_given_up_after_five_days(caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppedClock(datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    smtp = f"smtp://127.0.0.1:{free_port()}"  # nobody listens
    with Gateway(smtp=smtp, locks=LOCKS, clock=clock, timings=QUICK) as gateway, toolkit.connect(gateway) as tk:
        arm(tk)
        post(tk, "one")
        eventually(lambda: "could not be used" in errors(gateway)[0])
        assert states(gateway) == ["waiting"]
        clock.advance(seconds=5 * 86_400 + 1)
        eventually(lambda: states(gateway) == ["failed"])
    # The log says so too: if 1,000 later mails are finished already, the outbox does not keep this one.
    (said,) = [text for text in caplog.messages if "given up" in text]
    assert said.startswith("the alert mail 'garage:1' is given up: the mail server could not be used")


@pytest.mark.parametrize(("at", "misbehave"), [(b"ehlo", flood), (b".\r\n", drip)])
def test_endless_server_response_is_cut_off(at: bytes, misbehave: Callable[[socket.socket], object]) -> None:
    timings = Timings(mail_limit=1.5, mail_waits=(60,))
    with BadServer(at, misbehave) as server:
        with Gateway(smtp=server.url, locks=LOCKS, timings=timings) as gateway, toolkit.connect(gateway) as tk:
            arm(tk)
            post(tk, "one")
            eventually(lambda: errors(gateway)[0].startswith("the mail was not delivered: "))
            assert states(gateway) == ["waiting"]


def test_a_mail_is_sent_again_if_no_answer_came() -> None:
    """The server may have accepted it; so it may arrive twice, and is not lost."""
    with BadServer(b".\r\n", lambda connection: connection.close()) as server:
        with Gateway(smtp=server.url, locks=LOCKS, timings=QUICK) as gateway, toolkit.connect(gateway) as tk:
            arm(tk)
            post(tk, "one")
            eventually(lambda: server.texts >= 2)
            assert states(gateway) == ["waiting"]


def test_a_bug_at_one_mail_stops_no_other(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    content_of = Mail.content

    def content(mail: Mail, sender: str) -> bytes:
        if mail.subject.endswith("one"):
            raise RuntimeError("a bug")
        return content_of(mail, sender)

    with MailServer() as server, Gateway(smtp=server.url, locks=LOCKS, timings=QUICK) as gateway:
        with toolkit.connect(gateway) as tk:
            arm(tk)
            with monkeypatch.context() as broken:
                broken.setattr(Mail, "content", content)
                post(tk, "one", "two", "three")
                eventually(lambda: states(gateway) == ["waiting", "sent", "sent"])
            eventually(lambda: states(gateway) == ["sent"] * 3)
        assert len(server.mails) == 3
    assert "the alert mail 'garage:1' is tried again later, because of a bug of the gateway" in caplog.messages


@pytest.mark.parametrize("kills", [2, pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(300)])])
def test_no_mail_is_lost_if_gateways_are_killed(tmp_path: Path, kills: int) -> None:
    """A kill between the server's acceptance and the note of it sends a mail again, with the same Message-ID."""
    server, wanted = MailServer(), []
    options: dict[str, Any] = {"smtp": server.url, "locks": LOCKS}
    with ExitStack() as closing:
        for kill in range(kills):
            timings = {"mail_waits": [0.01], "mail_lease": 1.0}
            with GatewayProcess(tmp_path, timings=timings, **options) as process:
                with toolkit.connect(process.base_url) as tk:
                    if kill == 0:  # the mail server is not there yet, so the first mails outlive a restart
                        arm(tk)
                    messages = [f"message {kill}.{number}" for number in range(4)]
                    post(tk, *messages)
                    if kill > 0:  # kill it while it sends
                        before = len(server.mails)
                        eventually(lambda: len(server.mails) > before)  # noqa: B023
                process.kill()
            wanted += [f"Alert of garage: {message}" for message in messages]
            if kill == 0:
                closing.enter_context(server)
        with Gateway(tmp_path, timings=QUICK, **options) as gateway:
            eventually(lambda: states(gateway) == ["sent"] * len(wanted))
            assert sorted(operator_of(gateway).outbox()["subject"]) == sorted(wanted), "each was queued once"
    arrived = {(message_of(mail)["Message-ID"], message_of(mail)["Subject"]) for mail in server.mails}
    assert sorted(subject for _, subject in arrived) == sorted(wanted), "each mail has one Message-ID"


@pytest.fixture
def certificate(tmp_path: Path) -> ssl.SSLContext:
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("makes a certificate with openssl")
    files = [str(tmp_path / name) for name in ("key.pem", "certificate.pem")]
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x"]
    subprocess.run([openssl, *made, "-keyout", files[0], "-out", files[1]], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    return context


MAIL = Mail("garage:1", 1_000, "garage", ["c@d.example"], "subject", "text")
SENT = Outcome("sent")
# Another name of 127.0.0.1, which counts as another machine.
FAR, NEAR = "127.1", "127.0.0.1"


def deliver(url: str) -> Outcome:
    async def run() -> Outcome:
        delivery = SmtpDelivery(Secret(url), 60)
        try:
            return await delivery.deliver(MAIL, "a@b.example")
        finally:
            delivery.close()

    return asyncio.run(run())


def test_password_is_sent_to_loopback_or_over_tls_only(certificate: ssl.SSLContext) -> None:
    with MailServer() as server:
        refused = deliver(f"smtp://me:secret@{FAR}:{server.port}")
        assert refused.state == "waiting"
        assert "STARTTLS extension not supported" in refused.error
        assert (server.passwords, server.mails) == ([], [])
        assert deliver(f"smtp://me:secret@{NEAR}:{server.port}") == SENT
        assert (server.passwords, len(server.mails)) == ([b"secret"], 1)
    with MailServer(tls=certificate) as server:
        refused = deliver(f"smtp://me:secret@{FAR}:{server.port}")
        assert refused.state == "waiting"
        assert "certificate verify failed" in refused.error
        assert (server.passwords, server.mails) == ([], [])
        assert deliver(f"smtp://me:secret@{NEAR}:{server.port}") == deliver(f"smtp://{FAR}:{server.port}") == SENT
        assert (server.passwords, len(server.mails)) == ([b"secret"], 2)


def test_failed_login_leaves_the_mail_queued() -> None:
    with MailServer(refuse_password=True) as server:
        for url, error in {
            f"smtp://me:secret@127.0.0.1:{server.port}": "it answered 535",  # an answer that repeats the password
            "smtp://mail..example:25": "UnicodeError",
            f"smtp://me:schl%C3%BCssel@127.0.0.1:{server.port}": "UnicodeEncodeError",
        }.items():
            assert deliver(url) == Outcome("waiting", f"the mail server could not be used: {error}")
        assert server.mails == []


def test_mail_counts_as_sent_if_only_the_quit_fails() -> None:
    async def run() -> Outcome:
        delivery = SmtpDelivery(Secret(server.url), 60)
        delivering = asyncio.ensure_future(delivery.deliver(MAIL, "a@b.example"))
        assert await asyncio.to_thread(server.is_reached.wait, 60)
        delivery.close()
        return await delivering

    with BadServer(b"quit", drip) as server:
        assert asyncio.run(run()) == SENT
