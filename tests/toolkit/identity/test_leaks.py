"""Places where a secret could appear, tested with a canary."""

from __future__ import annotations

import copy
import io
import json
import logging
import pickle
import re
import socket
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
#: Runs in a notebook: the whole flow and every kind of failure, with keys and answers that can be found.
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
import sys  # the tests read there what to look for
sys.stderr.write("ISSUED " + user.secret("code").reveal() + chr(10))
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
    "print": lambda secret: print(secret, [secret], file=(out := io.StringIO())) or out.getvalue(),
}


def test_a_secret_shows_a_short_hash_and_nothing_else() -> None:
    secret, guessable = Secret(CANARY), Secret("97024", guessable=True)
    for sink, show in SINKS.items():
        shown = str(show(secret))
        assert CANARY not in shown, sink
        assert re.search(r"Secret\(sha256:[0-9a-f]{8}\)", shown), sink
        shown = str(show(guessable))
        assert "Secret(***)" in shown, sink
        assert "97024" not in shown, sink
        assert "sha256" not in shown, sink
    assert Secret(CANARY) == secret != guessable
    assert len({secret, Secret(CANARY), guessable}) == 2
    for store in (copy.copy, copy.deepcopy, pickle.dumps, vars, lambda s: s.__getstate__(), lambda s: s.value):
        with pytest.raises((TypeError, AttributeError)) as caught:
            store(secret)
        assert CANARY not in str(caught.value)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> tuple[nbformat.NotebookNode, str]:
    """Run the flow, all failures and the widget in a notebook whose tracebacks print every value; and its code."""
    nbclient = pytest.importorskip("nbclient")
    cells = [
        "%xmode Verbose",
        "%colors nocolor",
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
        "user",
        "tk.identity.trace()",
        "tk.identity.trace()[['request', 'response']].to_dict()",
        "listed",
        "tk, gateway, gateway.credentials, phone, zip_code",
        "walkthrough = toolkit.IdentityWalkthrough(tk)\n"
        "walkthrough.run_all()\n"
        "for attack in walkthrough.attacks: walkthrough.try_attack(attack)\n"
        "walkthrough",
        "Out",
        "gateway.close()",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    client = nbclient.NotebookClient(
        notebook, timeout=100, kernel_name="python3", allow_errors=True, store_widget_state=True
    )
    client.execute(cwd=str(tmp_path_factory.mktemp("notebook")))
    streams = [output for output in outputs_of(notebook) if output.output_type == "stream"]
    (announced,) = [output for output in streams if "ISSUED" in output.text]
    (code,) = re.findall(r"ISSUED (\S+)", announced.text)
    announced.text = ""  # the test's own announcement
    return notebook, code


def outputs_of(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.outputs]


def test_verbose_traceback_shows_no_secret(executed: tuple[nbformat.NotebookNode, str]) -> None:
    notebook, code = executed
    errors = [output for output in outputs_of(notebook) if output.output_type == "error"]
    kinds = {"KeyRejected", "NotFound", "Unreachable", "SessionClosed", "CodeExpired", "Conflict", "TypeError"}
    assert kinds <= {error.ename for error in errors}
    said = "".join(line for error in errors for line in error.traceback)
    assert "Secret(sha256:" in said, "values are shown, and are hidden"
    for secret in (CANARY, code, SHOP):
        assert secret not in said
    assert not re.search(r"vfp=[A-Za-z0-9_-]{43}", said)
    assert "97024" not in said
    assert "13579" not in said, "an answer that is typed as text, or as a number, is hidden, too"
    assert not re.search(r"""['"][A-Za-z0-9_-]{43}['"]""", said), "no bare fingerprint or verifier"


def test_saved_notebook_holds_no_secret(executed: tuple[nbformat.NotebookNode, str]) -> None:
    notebook, code = executed
    assert "widgets" in notebook.metadata, "the state of the widgets is in the file"
    saved = re.sub(r'"image/png": "[^"]*"', "", nbformat.writes(notebook))
    assert "Secret(sha256:" in saved
    for secret in (code, *CREDENTIALS.values()):
        assert secret not in saved
    assert not re.search(r"(?<![A-Za-z0-9_/+-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_/+=-])", saved)


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


def test_the_tutorial_holds_no_secret() -> None:
    (path,) = (ROOT / "notebooks").glob("4-*.ipynb")
    text = re.sub(r'"image/png": "[^"]*"', '"image/png": ""', path.read_text("utf-8"))
    assert '"output_type": "error"' not in text
    assert not re.search(r"(?<![A-Za-z0-9_/+-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_/+=-])", text)
    assert not re.search(r"http://127\.0\.0\.1:[0-9]{4,5}", text)
