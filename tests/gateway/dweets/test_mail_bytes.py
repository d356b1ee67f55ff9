"""Mails byte for byte at a mail server, with hostile texts of devices and hostile names of things."""

from __future__ import annotations

import asyncio
import email
import email.policy
import os
import random
import re
import stat
import string
from email.header import decode_header, make_header
from pathlib import Path
from urllib.parse import quote

import pytest
from aiosmtpd.smtp import Envelope
from hypothesis import example, given
from hypothesis import strategies as st

from tests.conftest import Caller, operator_of
from tests.mail_server import MailServer, eventually
from toolkit.dweets import wire
from toolkit.errors import InvalidArgument, MalformedRequest
from toolkit_gateway import Gateway
from toolkit_gateway.configuration import configuration_of
from toolkit_gateway.dweets.mail import Mail
from toolkit_gateway.dweets.mail_delivery import MailFolder, Outcome

HEADERS = [
    "From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type",
    "Content-Transfer-Encoding",
]  # fmt: skip
HEADERS_IN_WORD = "=?utf-8?q?=0D=0AReply-To:_evil@x.example=0D=0A=0D=0A<html>?="
BCC_IN_BASE64 = "=?utf-8?b?DQpCY2M6IGV2aWxAeC5leGFtcGxlDQo=?="

# What a device reports -> what the subject says of it.
REPORTS = {
    "plain": "plain",
    HEADERS_IN_WORD: HEADERS_IN_WORD,
    BCC_IN_BASE64: BCC_IN_BASE64,
    f"{HEADERS_IN_WORD} {BCC_IN_BASE64}": f"{HEADERS_IN_WORD} {BCC_IN_BASE64}",
    "=?utf-8?q?split\r\n =0ABcc:_evil@x.example?=": "=?utf-8?q?split =0ABcc:_evil@x.example?=",
    "=?utf-8?q?=0ABcc:": "=?utf-8?q?=0ABcc:",
    "?= =?": "?= =?",
    "?==?utf-8?q?=41?=": "?==?utf-8?q?=41?=",
    "=\r\n?utf-8?q?=41?=": "= ?utf-8?q?=41?=",
    "a\r\nBcc: evil@x.example": "a Bcc: evil@x.example",
    "b\rBcc: evil@x.example": "b Bcc: evil@x.example",
    "c\nBcc: evil@x.example": "c Bcc: evil@x.example",
    "d\u2028Bcc: evil@x.example": "d Bcc: evil@x.example",
    "e\u0085Bcc: evil@x.example": "e Bcc: evil@x.example",
    "f\x0b\x0c\x1c\x1d\x1e\u2029Bcc: evil@x.example": "f Bcc: evil@x.example",
    "g\x07\x1b[31m\x7f\x9b": "g [31m",
    "\r\n\r\n<html>": "<html>",
    "\r\n.\r\nMAIL FROM:<evil@x.example>\r\n": ". MAIL FROM:<evil@x.example>",
    "\n.\nMAIL": ". MAIL",
    "\r.\rRCPT": ". RCPT",
    "ü" * 300: "ü" * 185,
    "x" * 3000: "x" * 185,
    "=?utf-8?q?=0A?= " * 100: ("=?utf-8?q?=0A?= " * 100)[:185].rstrip(),
    "\U0001f525" * 190: "\U0001f525" * 185,
    "'\"\\();<>@,:": "'\"\\();<>@,:",
}


def mails_of(server: MailServer, count: int) -> list[Envelope]:
    eventually(lambda: len(server.mails) == count, said=f"not {count} mails, but {len(server.mails)}, had arrived")
    return server.mails


def subject_in(data: bytes | str | None) -> str:
    """Check that a mail has our headers only, once each, and return its subject as every reader decodes it."""
    assert isinstance(data, bytes)
    assert data.isascii()
    assert not re.search(rb"\r(?!\n)|(?<!\r)\n", data), "a lone CR or LF ends a line for some servers"
    assert max(map(len, data.split(b"\r\n"))) <= 998
    old, new = email.message_from_bytes(data), email.message_from_bytes(data, policy=email.policy.default)
    assert sorted(old.keys()) == sorted(new.keys()) == sorted(HEADERS)
    assert new.get_content_type() == "text/plain"
    assert not new.is_multipart()
    assert not new.defects
    assert old["To"] == "a@b.example, c@d.example"
    assert old["From"] == "alerts@gateway.invalid"
    subject = str(make_header(decode_header(old["Subject"].replace("\r\n", ""))))
    assert subject == new["Subject"]
    return subject


def body_of(data: bytes | str | None) -> str:
    assert isinstance(data, bytes)
    body = email.message_from_bytes(data).get_payload(decode=True)
    assert isinstance(body, bytes)
    return body.decode()


def armed(call: Caller, thing: str) -> str:
    """Set an alert that mails what the device says; return the key."""
    _, key, _ = call.locked(thing)
    answer = call.get(f"/alert/a@b.example,c@d.example/when/{thing}/return%20dweet?key={key}")
    assert answer["this"] == "succeeded"
    return key


def test_device_text_never_becomes_a_mail_header() -> None:
    with MailServer() as server, Gateway(smtp=server.url) as gateway:
        call = Caller(gateway)
        key = armed(call, "oven")
        for report in REPORTS:
            assert call.post("oven", report, f"?key={key}")["this"] == "succeeded"
        arrived = mails_of(server, len(REPORTS))
        kept = sorted(operator_of(gateway).outbox()["subject"])
    for mail in arrived:
        assert (mail.mail_from, mail.rcpt_tos) == ("alerts@gateway.invalid", ["a@b.example", "c@d.example"])
    subjects = sorted(subject_in(mail.content) for mail in arrived)
    assert subjects == sorted(f"Alert of oven: {said}" for said in REPORTS.values()) == kept


def test_thing_name_never_becomes_a_mail_header() -> None:
    things = [HEADERS_IN_WORD, BCC_IN_BASE64, "a\u2028Bcc: evil@x.example", "ü" * 100, '"x" <evil@x.example>, y']
    with MailServer() as server, Gateway(smtp=server.url) as gateway:
        call = Caller(gateway)
        for thing in things:
            key = armed(call, quote(thing, safe=""))
            call.post(quote(thing, safe=""), "fire", f"?key={key}")
        arrived = mails_of(server, len(things))
        kept = operator_of(gateway).outbox()["text"]
    wanted = sorted(f"Alert of {thing.replace(chr(0x2028), ' ')}: fire" for thing in things)
    assert sorted(subject_in(mail.content) for mail in arrived) == wanted
    assert sorted(body_of(mail.content).replace("\r\n", "\n") for mail in arrived) == sorted(kept)


PARTS = [
    *("=?", "?=", "utf-8", "?q?", "?b?", "=0A", "=0D", "\r", "\n", " ", "\u2028", "\x85", "\x00"),
    *("Bcc:", "a@b.c", "ü", "\U0001f525"),
]
TEXTS = st.text() | st.lists(st.sampled_from(PARTS)).map("".join)


@given(message=TEXTS, text=TEXTS, thing=TEXTS)
@example(message="\ufffd", text="\r.\r", thing="=?")
def test_any_mailed_text_is_read_back_unchanged(message: str, text: str, thing: str) -> None:
    mail = Mail.for_alert(thing, 1, 1_000, ["a@b.example", "c@d.example"], message, text)
    content = mail.content("alerts@gateway.invalid")
    assert subject_in(content) == mail.subject
    assert lines_of(body_of(content)) == lines_of(mail.text)
    assert mail.subject == " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", mail.subject).split())


def lines_of(text: str) -> list[str]:
    return re.sub(r"\r\n?", "\n", text).rstrip("\n").split("\n")


BAD_ADDRESSES = [
    "=?utf-8?q?a=40b.example=2Cevil=40x.example?=@b.c", "=?utf-8?q?evil?=@x.example", "a=?@b.c", "a@x..co", "a@.co",
    "a@co.", ".a@x.co", "a.@x.co", "a..b@x.co", "a@x.-co", "a@x-.co", '"a b"@x.co', '"a@b"@x.co', "a\\@x.co",
    "a@x.co\r\nRCPT TO:<evil@x.co>", "a@x.co\n", "a@x.co\r", "a@x.co\x00", "a\x85@x.co", "a\u2028@x.co",
    "a b@c.d", "a@b@c.d", "a(x)@b.c", "group:a@b.c;", '"a"@b.c', "jürgen@b.c", "x" * 65 + "@b.c",
    "<a@x.co>", "A <a@x.co>", "a@x.co>", "a@[127.0.0.1]", "a@x.co;b", "\ud800@x.co", "", " ", "@", "a", "a@",
    "a@" + "x" * 64 + ".co", "a@" + ".".join(["x" * 60] * 5),
]  # fmt: skip


def test_ambiguous_address_is_refused() -> None:
    for address in BAD_ADDRESSES:
        for who in (address, f"a@b.example,{address}"):
            with pytest.raises(MalformedRequest, match="^who must be a comma-separated list of e-mail addresses$"):
                wire.checked_recipients(who)
        with pytest.raises(InvalidArgument, match="sender"):
            configuration_of({"dweets": {"sender": address}})


def random_address(chance: random.Random) -> str:
    atom = string.ascii_letters + string.digits + "!#$%&'*+/?^_`{|}~-"
    local = ["".join(chance.choices(atom, k=chance.randint(1, 9))) for _ in range(chance.randint(1, 4))]
    host = ["".join(chance.choices("abcxyz019", k=chance.randint(1, 20))) for _ in range(chance.randint(1, 4))]
    return f"{'.'.join(local)}@{'.'.join(host)}.example"


def test_envelope_has_exactly_the_given_addresses() -> None:
    chance = random.Random(7)
    wanted = [[random_address(chance) for _ in range(20)] for _ in range(5)]
    with MailServer() as server, Gateway(smtp=server.url) as gateway:
        call = Caller(gateway)
        for number, who in enumerate(wanted):
            _, key, _ = call.locked(f"oven-{number}")
            target = f"/alert/{quote(','.join(who), safe='')}/when/oven-{number}/return%20true?key={key}"
            assert call.get(target)["this"] == "succeeded"
            call.post(f"oven-{number}", 1, f"?key={key}")
        arrived = mails_of(server, len(wanted))
    assert sorted(mail.rcpt_tos for mail in arrived) == sorted(wanted)


def test_only_the_owner_may_read_stored_mails(tmp_path: Path) -> None:
    folder = tmp_path / "outbox"
    mail = Mail("oven:1", 1_000, "oven", ["a@b.example"], "subject", "a secret")
    before = os.umask(0)
    try:
        assert asyncio.run(MailFolder(folder).deliver(mail, "c@d.example")) == Outcome("kept")
    finally:
        os.umask(before)
    (file,) = folder.iterdir()
    assert file.read_bytes() == mail.content("c@d.example")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (folder, file)] == [0o700, 0o600]
