"""Places where a secret could appear, tested with a canary."""

from __future__ import annotations

import copy
import io
import json
import logging
import os
import pickle
import re
import socket
import subprocess
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import nbformat
import pytest

import toolkit
from tests.conftest import ROOT
from tests.identity_lab import CREDENTIALS, SHOP, Lab, log_requests
from tests.literal_server import LiteralServer, Reply, envelope
from toolkit.errors import ToolkitError
from toolkit.identity.client.identity import IdentitySession
from toolkit.identity.client.transaction import AuthenticatedUser, StartedTransaction
from toolkit.identity.phones import Handset
from toolkit.secret import Secret

CANARY = "kanarienvogel-7Jm3-kanarienvogel-7Jm3-kanarie"
#: Runs in a notebook or in IPython: the whole flow and every kind of failure, with keys and answers that can be found.
FLOW = """
import toolkit
from toolkit_gateway import Gateway
gateway = Gateway.demo()
tk = toolkit.connect(gateway)
phone = gateway.handset("happy")
zip_code = toolkit.Secret("97" + "024", guessable=True)
user = tk.identity.finish_authentication(
    tk.identity.authenticate_device(tk.identity.start_authentication(phone), phone)
)
tk.identity.eligibility(user)
listed = tk.identity.payment_list(user, answer=zip_code)
from tests.toolkit.identity.test_leaks import issued
issued(tk, user)
"""
FAILURES = [
    "tk.identity.payment_list(user, answer=wrong)",
    "tk.identity.payment_list(user, answer=typed())",
    "tk.identity.payment_list(user, answer=int(typed()))",
    "tk.identity.payment_details(user, ['00000000-0000-4000-8000-000000000000'])",
    "tk.identity.start_authentication(device_ip='198.18.0.1')",
    "tk.identity.finish_authentication(proof)",
    "tk.identity.authenticate_device(transaction, phone)",
    "toolkit.connect(gateway, credentials={'ApiClientId': canary}).identity.echo('x')",
    "toolkit.connect('http://127.0.0.1:1', credentials={'ApiClientId': canary}).identity.echo('x')",
    "tk.identity.authenticate_device(waiting, Handset('mine', address='fe80::1%日本'))",
    "session.eligibility()",
    "import pickle; pickle.dumps(user)",
    "tk.identity.eligibility(user)",
]


def issued(tk: toolkit.Connection, user: object) -> None:
    """Write every secret of the flow to stderr, which the tests read, so that they know what to look for."""
    code = user.secret("code").reveal()
    sys.stderr.write(f"ISSUED {code}\n")


SINKS: dict[str, Callable[[Secret], object]] = {
    "repr": repr,
    "str": str,
    "format": format,
    "f-string": lambda secret: f"{secret} {secret!r} {secret!s} {secret:>40}",
    "percent": lambda secret: "%s %r" % (secret, secret),  # noqa: UP031
    "json": lambda secret: json.dumps({"a": secret}, default=str),
    "html": lambda secret: secret._repr_html_(),
    "list": lambda secret: str([secret, {"a": secret}]),
    "log": lambda secret: logging.LogRecord("x", 10, "f", 1, "%s", (secret,), None).getMessage(),
    "exception": lambda secret: "".join(traceback.format_exception(ValueError(secret))),
    "print": lambda secret: _printed(secret),
}


def _printed(secret: Secret) -> str:
    out = io.StringIO()
    print(secret, [secret], file=out)
    return out.getvalue()


@pytest.mark.parametrize("sink", SINKS)
def test_a_secret_shows_a_short_hash_and_nothing_else(sink: str) -> None:
    shown = str(SINKS[sink](Secret(CANARY)))
    assert CANARY not in shown
    assert re.search(r"Secret\(sha256:[0-9a-f]{8}\)", shown)
    guessable = str(SINKS[sink](Secret("97024", guessable=True)))
    assert "Secret(***)" in guessable
    assert "97024" not in guessable
    assert "sha256" not in guessable


@pytest.mark.parametrize(
    "work",
    [copy.copy, copy.deepcopy, pickle.dumps, lambda s: s.__dict__, vars, lambda s: s.__getstate__()],
    ids=["copy", "deepcopy", "pickle", "__dict__", "vars", "__getstate__"],
)
def test_a_secret_is_neither_copied_nor_stored(work: Callable[[Secret], object]) -> None:
    with pytest.raises((TypeError, AttributeError)) as caught:
        work(Secret(CANARY))
    assert CANARY not in str(caught.value)


@pytest.fixture(scope="module")
def verbose(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Run the flow and all failures in a real IPython that prints every value it can find."""
    folder = tmp_path_factory.mktemp("ipython")
    cells = [
        "%xmode Verbose",
        FLOW,
        f"canary = toolkit.Secret('{CANARY[:20]}' + '{CANARY[20:]}'); wrong = toolkit.Secret('0' * 5, guessable=True)",
        "def typed(): return ''.join(['13', '579'])",
        "from toolkit.identity import Handset; waiting = tk.identity.start_authentication(phone)",
        "transaction = tk.identity.start_authentication(phone)",
        "proof = tk.identity.authenticate_device(transaction, phone)",
        "session = tk.identity.session(); _ = session.authenticate(gateway.handset('no_cards')); session.close()",
        *FAILURES,
        "tk.identity.finish_authentication(proof); tk.identity.finish_authentication(proof)",
        "gateway.clock.advance(seconds=301); tk.identity.eligibility(user)",
        "gateway.close()",
    ]
    script = folder / "cells.py"
    script.write_text(
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance(colors='nocolor')\n"
        f"for cell in {cells!r}:\n    shell.run_cell(cell, store_history=False)\n",
        "utf-8",
    )
    command = [sys.executable, "-W", "ignore", str(script)]
    environment = os.environ | {"HOME": str(folder), "IPYTHONDIR": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment, check=True)


def test_verbose_ipython_traceback_shows_no_secret(verbose: subprocess.CompletedProcess[str]) -> None:
    (code,) = re.findall(r"ISSUED (\S+)", verbose.stderr)
    said = verbose.stdout
    for kind in ("KeyRejected", "NotFound", "Unreachable", "SessionClosed", "CodeExpired", "Conflict", "TypeError"):
        assert kind in said, f"{kind} was not raised"
    assert "Secret(sha256:" in said, "values are shown, and are hidden"
    for secret in (CANARY, code, SHOP):
        assert secret not in said
    assert not re.search(r"vfp=[A-Za-z0-9_-]{43}", said)
    assert "97024" not in said
    assert "13579" not in said, "an answer that is typed as text, or as a number, is hidden, too"
    assert not re.search(r"""['"][A-Za-z0-9_-]{43}['"]""", said), "no bare fingerprint or verifier"


def trouble(kind: str) -> tuple[LiteralServer | None, str]:
    if kind == "refused":
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            return None, f"http://127.0.0.1:{taken.getsockname()[1]}"

    def answer(path: str, body: bytes) -> Reply | None:
        said = {"hang up": None, "bad JSON": (200, {}, body), "500": (500, {}, body)}
        if kind in said:
            return said[kind]
        # A hostile gateway that says back what was sent to it, everywhere.
        sent = json.loads(body)["ApiClientId"]
        status = {"401": 1005, "echo": 4711}[kind]
        return envelope(body, sent, Status=status, Description=sent, AdditionalInfo=sent)

    server = LiteralServer(answer)
    return server, server.base_url


@pytest.mark.parametrize("kind", ["refused", "hang up", "bad JSON", "500", "401", "echo"])
def test_errors_repeat_no_text_of_library_or_server(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server, base_url = trouble(kind)
    tk = toolkit.connect(base_url, credentials={"ApiClientId": CANARY})
    with pytest.raises(ToolkitError) as caught:
        tk.identity.echo("x")
    tk.close()
    if server is not None:
        server.stop()
    error = caught.value
    shown = "".join(traceback.format_exception(error)) + repr(error.args) + repr(vars(error)) + str(error)
    assert CANARY not in shown + caplog.text + repr(tk.identity.trace().to_dict())
    assert error.__context__ is None
    assert error.__cause__ is None
    assert "accountEcho" in str(error) or "contract" in str(error)


def test_timeout_error_names_only_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        base_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        tk = toolkit.connect(base_url, credentials={"ApiClientId": CANARY})
        monkeypatch.setattr("toolkit.http_client._TIMEOUT_SECONDS", (1.0, 0.05))
        with pytest.raises(ToolkitError, match="did not answer in time") as caught:
            tk.identity.echo("x")
        tk.close()
    assert CANARY not in "".join(traceback.format_exception(caught.value))


def authenticated(session: IdentitySession, phone: Handset) -> tuple[StartedTransaction, AuthenticatedUser]:
    transaction = session.start_authentication(phone)
    session.authenticate_device(phone)
    return transaction, session.finish_authentication()


def test_no_logger_writes_a_secret(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    log_requests(lab, caplog)
    with toolkit.connect(lab.gateway, credentials={"ApiClientId": SHOP}) as tk, tk.identity.session() as session:
        transaction, user = authenticated(session, lab.gateway.handset("happy"))
        code, first = user.secret("code").reveal(), transaction.secret("fingerprint").reveal()
        session.eligibility()
        session.payment_list(answer="97024")
    assert logging.getLogger("urllib3.connectionpool").isEnabledFor(logging.DEBUG)
    assert "deviceAuthenticate" in caplog.text
    for secret in (code, first, SHOP, "97024", "vfp="):
        assert secret not in caplog.text


def test_tables_hold_no_secret_in_any_form(lab: Lab, tmp_path: Path) -> None:
    with toolkit.connect(lab.gateway, credentials={"ApiClientId": SHOP}) as tk, tk.identity.session() as session:
        transaction, user = authenticated(session, lab.gateway.handset("happy"))
        secrets = [user.secret("code").reveal(), transaction.secret("fingerprint").reveal(), SHOP]
        asked, listed = session.eligibility(), session.payment_list(answer="97024")
        frames = [asked, listed, session.payment_details(listed["payment_id"]), tk.identity.trace()]
    for number, frame in enumerate(frames):
        target = tmp_path / f"{number}.parquet"
        frame.to_parquet(target)
        forms = (
            frame.to_csv(),
            frame.to_json(date_format="iso"),
            frame.to_html(),
            repr(frame),
            repr(frame.attrs),
            frame.to_string(),
        )
        written = "".join(forms).encode() + target.read_bytes() + pickle.dumps(frame)
        assert not any(secret.encode() in written for secret in secrets)
    assert "Secret(***)" in frames[-1]["request"].sum(), "the answer is hidden without a hash"


def test_saved_notebook_holds_no_secret(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient")
    cells = [
        "import sys; sys.path.insert(0, " + repr(str(ROOT)) + ")",
        FLOW,
        "user",
        "tk.identity.trace()",
        "tk.identity.trace()[['request', 'response']].to_dict()",
        "listed",
        "tk, gateway, gateway.credentials, phone, zip_code",
        "from toolkit.identity.widgets.identity_walkthrough import IdentityWalkthrough\n"
        "walkthrough = IdentityWalkthrough(tk)\n"
        "walkthrough.run_all()\n"
        "for attack in walkthrough.attacks: walkthrough.try_attack(attack)\n"
        "walkthrough",
        "tk.identity.payment_details(user, ['x'])",
        "sys.stderr.write(chr(10)); Out",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", allow_errors=True, store_widget_state=True
    )
    client.execute(cwd=str(tmp_path))
    outputs = [output for cell in notebook.cells for output in cell.outputs]
    streams = [output for output in outputs if output.output_type == "stream" and "ISSUED" in output.text]
    (code,) = re.findall(r"ISSUED (\S+)", streams[0].text)
    for output in streams:  # the test's own announcement
        output.text = ""
    errors = [output.ename for output in outputs if output.output_type == "error"]
    assert errors == ["CodeExpired"], "one of the attacks let the clock run"
    assert "widgets" in notebook.metadata, "the state of the widgets is in the file"
    target = tmp_path / "saved.ipynb"
    nbformat.write(notebook, target)
    saved = re.sub(r'"image/png": "[^"]*"', "", target.read_text("utf-8"))
    assert "Secret(sha256:" in saved
    for secret in (code, *CREDENTIALS.values()):
        assert secret not in saved
    assert not re.search(r"(?<![A-Za-z0-9_/+-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_/+=-])", saved)


def test_the_tutorial_holds_no_secret() -> None:
    (path,) = (ROOT / "notebooks").glob("4-*.ipynb")
    text = re.sub(r'"image/png": "[^"]*"', '"image/png": ""', path.read_text("utf-8"))
    assert '"output_type": "error"' not in text
    assert not re.search(r"(?<![A-Za-z0-9_/+-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_/+=-])", text)
    assert not re.search(r"http://127\.0\.0\.1:[0-9]{4,5}", text)
