"""Alert mails to a real SMTP server: sent, retried while it is away, and not lost in a crash."""

from __future__ import annotations

import asyncio
import email
import email.policy
import shutil
import socket
import ssl
import subprocess
import threading
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import toolkit
from tests.conftest import operator_of
from tests.gateway_process import GatewayProcess
from tests.mail_server import MailServer, eventually
from tests.ports import free_port
from toolkit.dweets.service.mail import NotDelivered, OutgoingMail, SmtpDelivery
from toolkit.gateway import Gateway, SteppedClock
from toolkit.outside_world import Timings

LOCKS = {"garage-lock": "master-of-the-garage"}
QUICK = {"mail_waits": [0.05], "lease": 1.0}
KEY = LOCKS["garage-lock"]


def arm(tk: toolkit.Connection, who: str = "a@b.example", condition: str = "return dweet") -> None:
    tk.dweets.lock("garage", lock="garage-lock", key=KEY)
    tk.dweets.set_alert("garage", who=who, condition=condition, key=KEY)


def states(gateway: Gateway) -> list[str]:
    found: list[str] = operator_of(gateway).outbox()["state"].tolist()
    return found


def test_a_mail_arrives_once_and_can_be_read(caplog: pytest.LogCaptureFixture) -> None:
    with MailServer() as server, Gateway(smtp=server.url, locks=LOCKS) as gateway, toolkit.connect(gateway) as tk:
        arm(tk, "a@b.example, c@d.example")
        tk.dweets.post("garage", "ü: open\n.\n.hidden line", key=KEY)
        tk.dweets.post("garage", "ü: open\n.\n.hidden line", key=KEY)
        eventually(lambda: states(gateway) == ["sent"])
        (envelope,) = server.mails
        (kept,) = operator_of(gateway).outbox().to_dict("records")
    assert envelope.mail_from == "alerts@gateway.invalid"
    assert envelope.rcpt_tos == ["a@b.example", "c@d.example"]
    data = envelope.content
    assert isinstance(data, bytes)
    assert data.isascii()
    message = email.message_from_bytes(data, policy=email.policy.default)
    assert message["Subject"] == "Alert of garage: ü: open . .hidden line" == kept["subject"]
    assert message.get_content().replace("\r\n", "\n") == kept["text"]
    assert message["To"] == "a@b.example, c@d.example"
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Message-ID"].endswith("@gateway.invalid>")
    assert KEY not in data.decode("ascii")
    assert kept["error"] == ""


def test_it_is_retried_until_the_server_is_there() -> None:
    port = free_port()
    with (
        Gateway(smtp=f"smtp://127.0.0.1:{port}", locks=LOCKS, timings=waiting(0.02, 0.05)) as gateway,
        toolkit.connect(gateway) as tk,
    ):
        arm(tk)
        tk.dweets.post("garage", "one", key=KEY)
        eventually(lambda: "could not be used: Connection refused" in operator_of(gateway).outbox()["error"].iloc[0])
        assert states(gateway) == ["waiting"]
        with MailServer(port, refuse_text="451 try later") as server:
            eventually(lambda: "refused the text with 451" in operator_of(gateway).outbox()["error"].iloc[0])
            assert states(gateway) == ["waiting"]
            server.refuse_text = ""
            eventually(lambda: states(gateway) == ["sent"])
            assert len(server.mails) == 1


def test_the_waits_grow() -> None:
    waits = Timings().mail_waits
    assert list(waits) == sorted(waits)
    assert waits[0] >= 1
    assert waits[-1] >= 600


def test_a_recipient_that_is_refused_is_told_and_the_others_get_it() -> None:
    with MailServer(refuse_recipient="nobody") as server:
        with Gateway(smtp=server.url, locks=LOCKS) as gateway, toolkit.connect(gateway) as tk:
            arm(tk, "nobody@b.example,a@b.example")
            tk.dweets.post("garage", "one", key=KEY)
            eventually(lambda: states(gateway) == ["sent"])
            assert operator_of(gateway).outbox()["error"].tolist() == ["refused: nobody@b.example"]
        assert [mail.rcpt_tos for mail in server.mails] == [["a@b.example"]]


@pytest.mark.parametrize(
    ("refusal", "error"),
    [
        ({"refuse_recipient": "a@"}, "the mail server refused every recipient with 550"),
        ({"refuse_text": "554 this is spam"}, "the mail server refused the text with 554"),
    ],
)
def test_a_mail_that_is_refused_for_good_is_tried_once(refusal: dict[str, str], error: str) -> None:
    with MailServer(**refusal) as server:  # type: ignore[arg-type]
        with (
            Gateway(smtp=server.url, locks=LOCKS, timings=waiting(0.01)) as gateway,
            toolkit.connect(gateway) as tk,
        ):
            arm(tk)
            tk.dweets.post("garage", "one", key=KEY)
            eventually(lambda: states(gateway) == ["failed"])
            assert operator_of(gateway).outbox()["error"].tolist() == [error]
            server.refuse_recipient = server.refuse_text = ""
            tk.dweets.post("garage", "two", key=KEY)
            eventually(lambda: states(gateway) == ["failed", "sent"])
        assert [header_of(mail.content, "Subject") for mail in server.mails] == ["Alert of garage: two"]


def test_a_mail_is_given_up_after_five_days(caplog: pytest.LogCaptureFixture) -> None:
    clock = SteppedClock(datetime(2026, 1, 1, tzinfo=UTC), timedelta(seconds=1))
    smtp = f"smtp://127.0.0.1:{free_port()}"  # nobody listens
    with Gateway(smtp=smtp, locks=LOCKS, clock=clock, timings=waiting(0.01)) as gateway, toolkit.connect(gateway) as tk:
        arm(tk)
        tk.dweets.post("garage", "one", key=KEY)
        eventually(lambda: "could not be used" in operator_of(gateway).outbox()["error"].iloc[0])
        assert states(gateway) == ["waiting"]
        clock.advance(seconds=5 * 86_400 + 1)
        eventually(lambda: states(gateway) == ["failed"])
    # The log says so too: if 1,000 later mails are finished already, the outbox does not keep this one.
    (said,) = [text for text in caplog.messages if "given up" in text]
    assert said.startswith("the alert mail 'garage:1' is given up: the mail server could not be used")


def test_a_connection_that_breaks_after_data_is_uncertain() -> None:
    """The server may have accepted the mail: it is not sent again."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        texts: list[bytes] = []

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as lines:
                lines.write(b"220 hello\r\n")
                lines.flush()
                while not lines.readline().lower().startswith((b"data", b"quit")):
                    lines.write(b"250 OK\r\n")
                    lines.flush()
                lines.write(b"354 go on\r\n")
                lines.flush()
                while (line := lines.readline()) != b".\r\n":
                    texts.append(line)

        thread = threading.Thread(target=serve)
        thread.start()
        port = listener.getsockname()[1]
        smtp = f"smtp://127.0.0.1:{port}"
        with Gateway(smtp=smtp, locks=LOCKS, timings=waiting(0.01)) as gateway, toolkit.connect(gateway) as tk:
            arm(tk)
            tk.dweets.post("garage", "one", key=KEY)
            eventually(lambda: states(gateway) == ["uncertain"])
            assert "broke while the server received the mail" in operator_of(gateway).outbox()["error"].iloc[0]
        thread.join(60)
    assert texts
    assert all(line.endswith(b"\r\n") for line in texts)


def test_a_process_ends_while_a_mail_server_holds_it(tmp_path: Path) -> None:
    """The server sends a byte now and then, so that no time limit between two bytes ends the connection."""
    is_held = threading.Event()

    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        is_held.set()
        with connection, suppress(OSError):  # until the process has ended
            while not pause.wait(0.1):
                connection.sendall(b"2")

    pause = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=[listener], daemon=True).start()
        smtp = f"smtp://127.0.0.1:{listener.getsockname()[1]}"
        with GatewayProcess(tmp_path, smtp=smtp, locks=LOCKS, timings={"mail_stop": 0.01}) as process:
            with toolkit.connect(process.base_url) as tk:
                arm(tk)
                tk.dweets.post("garage", "one", key=KEY)
            assert is_held.wait(60)
            assert process.stop() == 0


def test_killed_between_dweet_and_mail_it_is_sent_after_the_restart(tmp_path: Path) -> None:
    port = free_port()
    smtp = f"smtp://127.0.0.1:{port}"
    with GatewayProcess(tmp_path, smtp=smtp, locks=LOCKS) as process, toolkit.connect(process.base_url) as tk:
        arm(tk)
        tk.dweets.post("garage", "fire", key=KEY)  # acknowledged: on disk, and the mail server is away
        process.kill()
    with MailServer(port) as server:
        for _ in range(2):
            with GatewayProcess(tmp_path, smtp=smtp, locks=LOCKS, timings=QUICK) as process:
                eventually(lambda: len(server.mails) >= 1)
                with toolkit.connect(process.base_url) as tk:
                    status = tk.dweets.get_alert("garage", key=KEY)
                    assert (status["open"][0], status["message"][0], status["sent_today"][0]) == (True, "fire", 1)
                process.kill()
        with Gateway(tmp_path, smtp=smtp, locks=LOCKS, timings=waiting(0.05, lease=1.0)) as gateway:
            eventually(lambda: states(gateway) == ["sent"])
        # The kill may come before the note that it was sent.
        assert len({header_of(mail.content, "Message-ID") for mail in server.mails}) == 1


def test_killed_again_and_again_no_mail_is_lost(tmp_path: Path) -> None:
    """A kill between the server's acceptance and the note of it sends a mail again, with the same Message-ID."""
    with MailServer() as server:
        number = 0
        for _ in range(4):
            with GatewayProcess(tmp_path, smtp=server.url, locks=LOCKS, timings=QUICK) as process:
                with toolkit.connect(process.base_url) as tk:
                    if number == 0:
                        arm(tk)
                    for _ in range(6):
                        tk.dweets.post("garage", f"message {number}", key=KEY)
                        number += 1
                process.kill()
        with Gateway(tmp_path, smtp=server.url, locks=LOCKS, timings=waiting(0.05, lease=1.0)) as gateway:
            eventually(lambda: states(gateway) == ["sent"] * number)
            queued = sorted(operator_of(gateway).outbox()["subject"])
    wanted = sorted(f"Alert of garage: message {n}" for n in range(number))
    assert queued == wanted, "each opening was queued once"
    arrived = {(header_of(mail.content, "Message-ID"), header_of(mail.content, "Subject")) for mail in server.mails}
    assert sorted(subject for _, subject in arrived) == wanted


def waiting(*waits: float, lease: float = 15.0) -> Timings:
    return Timings(mail_waits=waits, lease=lease)


def header_of(content: bytes | str | None, name: str) -> str:
    assert isinstance(content, bytes)
    return str(email.message_from_bytes(content, policy=email.policy.default)[name])


@pytest.fixture
def certificate(tmp_path: Path) -> ssl.SSLContext:
    """A certificate that nobody signed."""
    if (openssl := shutil.which("openssl")) is None:
        pytest.skip("makes a certificate with openssl")
    files = [str(tmp_path / name) for name in ("key.pem", "certificate.pem")]
    made = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=x"]
    subprocess.run([openssl, *made, "-keyout", files[0], "-out", files[1]], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files[1], files[0])
    return context


MAIL = OutgoingMail("name", "a@b.example", ["c@d.example"], b"Subject: x\r\n\r\nx\r\n")
# Another name of 127.0.0.1, which counts as another machine.
FAR, NEAR = "127.1", "127.0.0.1"


def deliver(url: str) -> None:
    asyncio.run(SmtpDelivery(url).deliver(MAIL))


def test_no_password_goes_to_a_far_server_without_tls() -> None:
    with MailServer() as server:
        with pytest.raises(NotDelivered, match="no STARTTLS"):
            deliver(f"smtp://me:secret@{FAR}:{server.port}")
        assert (server.passwords, server.mails) == ([], [])
        deliver(f"smtp://me:secret@{NEAR}:{server.port}")
        assert (server.passwords, len(server.mails)) == ([b"secret"], 1)


def test_a_refused_password_is_named_by_its_code_only() -> None:
    with MailServer(refuse_password=True) as server, pytest.raises(NotDelivered) as refused:
        deliver(f"smtp://me:secret@{NEAR}:{server.port}")
    assert str(refused.value) == "the mail server could not be used: it answered 535"
    assert server.passwords


@pytest.mark.parametrize("url", ["smtp://mail..example:25", "smtp://me:schl%C3%BCssel@127.0.0.1:{port}"])
def test_what_cannot_be_encoded_leaves_the_mail_waiting(url: str) -> None:
    with MailServer() as server:
        with pytest.raises(NotDelivered, match="could not be used: Unicode"):
            deliver(url.format(port=server.port))
        assert server.mails == []


def test_no_password_goes_to_an_unknown_certificate(certificate: ssl.SSLContext) -> None:
    with MailServer(tls=certificate) as server:
        with pytest.raises(NotDelivered, match="could not be used: .*certificate verify failed"):
            deliver(f"smtp://me:secret@{FAR}:{server.port}")
        assert (server.passwords, server.mails) == ([], [])
        deliver(f"smtp://me:secret@{NEAR}:{server.port}")
        deliver(f"smtp://{FAR}:{server.port}")
        assert (server.passwords, len(server.mails)) == ([b"secret"], 2)
