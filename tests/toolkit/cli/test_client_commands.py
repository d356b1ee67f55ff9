"""`toolkit post`, `tail`, `history` and `write` in a shell: with real processes, pipes and signals."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pandas as pd
import pytest

import toolkit
from tests.commands import TOOLKIT, called, run, started, url_of
from tests.conftest import ROOT
from tests.literal_server import LiteralServer
from tests.ports import free_port
from toolkit_gateway import Gateway

KEY = "correct-horse-battery"
# A thing, and what each command needs beside it.
READERS = (["history", "kitchen"], ["history", "kitchen", "--json"], ["tail", "kitchen"], ["post", "kitchen", "n=1"])
BLOCKED = "the gateway's usual port is in use on this machine"


@pytest.fixture
def url(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("TOOLKIT_URL", gateway.base_url)
    return gateway.base_url


@pytest.fixture(scope="module")
def writing_gateway() -> Iterator[Gateway]:
    """One for all that is written: each would start a process that renders."""
    with Gateway() as running:
        yield running


@pytest.fixture
def writing(writing_gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the commands find it in the environment."""
    monkeypatch.setenv("TOOLKIT_URL", writing_gateway.base_url)


@pytest.fixture
def no_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A machine without a gateway; gives the default data folder, which does not exist yet."""
    monkeypatch.delenv("TOOLKIT_URL", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    with socket.socket() as holder:
        try:
            holder.bind(("127.0.0.1", 8787))  # without listening: nothing answers there
        except OSError:
            pytest.skip(BLOCKED)
        yield tmp_path / "share" / "gateway-toolkit" / "gateway"


def contents(tk: toolkit.Connection, thing: str) -> list[object]:
    return tk.dweets.history(thing).iloc[:, 0].tolist()


@contextmanager
def tailing(*arguments: str, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run `toolkit tail kitchen`; the block begins once it listens."""
    with started("tail", "kitchen", *arguments, **environment) as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("listening to kitchen at http://")
        yield process


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


# -- post ---------------------------------------------------------------------------------------------------


def test_posted_pairs_have_the_types_of_a_get(url: str, tk: toolkit.Connection) -> None:
    said = json.loads(called("post", "my kitchen", "n=21.5", "is=true", "no=null", "id=007", "key=k", "t=a=b ü").stdout)
    content = {"n": 21.5, "is": True, "no": None, "id": "007", "key": "k", "t": "a=b ü"}
    assert (said["thing"], said["content"]) == ("my kitchen", content)
    assert tk.dweets.latest("my kitchen").index[0] == pd.Timestamp(said["created"])
    assert called("post", "-q", "kitchen", "n=1").stdout == ""


def test_malformed_content_is_refused_and_not_shown(url: str) -> None:
    for arguments in [["n=1", KEY], [f"={KEY}"], [KEY], ["-", "n=1"], [], [f"n={KEY}", "n=2"]]:
        said = called("post", "kitchen", *arguments, code=2)
        assert "KEY=VALUE" in said.stderr or "part 2 of the content has the name of an earlier part" in said.stderr
        assert KEY not in said.stderr + said.stdout


def test_each_line_of_a_pipe_is_one_dweet(url: str, tk: toolkit.Connection) -> None:
    rows = b"".join(b'{"n": %d}\r\n' % n for n in range(1_200))
    said = called("post", "kitchen", "-", stdin=b"\n" + rows + b' {"n": 2500.0}').stdout
    assert [json.loads(line)["content"]["n"] for line in said.splitlines()] == [*range(1_200), 2500.0]
    assert contents(tk, "kitchen") == [*range(1_200), 2500.0]


def test_each_line_is_sent_before_the_next_arrives(url: str, tk: toolkit.Connection) -> None:
    with started("post", "kitchen", "-", stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        for n in range(3):
            process.stdin.write(f"{n}\n")
            process.stdin.flush()
            assert json.loads(line_of(process))["content"] == n
            assert contents(tk, "kitchen")[-1] == n
        process.stdin.close()
        process.stdin = None  # so that nobody flushes it
        assert process.wait(60) == 0


@pytest.mark.parametrize("broken", [b'{"n": 3', b"NaN", b"\xff", b'"' + 70_000 * b"x" + b'"', 900_000 * b"["])
def test_invalid_line_is_named_with_what_was_sent(broken: bytes, url: str, tk: toolkit.Connection) -> None:
    done = called("post", "kitchen", "-", stdin=b"1\n2\n" + broken + b"\n4\n", code=1)
    assert contents(tk, "kitchen") == [1, 2]
    assert len(done.stdout.splitlines()) == 2
    assert re.fullmatch("Error: line 3: .{,150}; sent before that: 2 dweets\n", done.stderr)


# Files that are no lines of JSON, and what is said of their first line.
FILES = {
    "csv": (b"time;celsius\n27.03.2026;5,2\n", "send a CSV from Python, with tk.dweets.post_frame"),
    "utf-16": ('{"a": 1}\n'.encode("utf-16"), "this is UTF-16, and JSON is UTF-8"),
    "pretty": (b'{\n  "a": 1\n}\n', "each line has one complete value"),
    "NUL": (b'{"a": 1}\0\n', "this is not valid JSON; sent"),
}


@pytest.mark.parametrize("name", FILES)
def test_other_files_are_told_from_json_lines(name: str, url: str) -> None:
    file, said = FILES[name]
    assert said in called("post", "kitchen", "-", stdin=file, code=1).stderr


def test_a_byte_order_mark_is_skipped(url: str, tk: toolkit.Connection) -> None:
    called("post", "-q", "kitchen", "-", stdin=b"\xef\xbb\xbf1\n2\n")
    assert contents(tk, "kitchen") == [1, 2]


def test_refused_batch_names_what_was_sent(tmp_path: Path) -> None:
    lines = b"".join(b"%d\n" % n for n in range(1_500))
    with Gateway(config={"dweets": {"rate": 1_000}}) as gateway:
        complained = called("post", "kitchen", "-", f"--url={gateway.base_url}", stdin=lines, code=1).stderr
    assert complained.startswith("Error: lines 1,001 to 1,500: Rate limit exceeded")
    assert complained.endswith("; sent before that: 1,000 dweets\n")


def test_an_empty_stdin_posts_nothing(url: str) -> None:
    assert called("post", "kitchen", "-", stdin=b"\n\n").output == ""
    assert called("post", "bad\x01name", "-", code=2).stderr.startswith("Error: a thing's name must")


# -- tail ---------------------------------------------------------------------------------------------------


def test_tail_prints_dweets_as_they_arrive(url: str, tk: toolkit.Connection) -> None:
    deep = 1_000 * b"[" + 1_000 * b"]"
    with tailing() as plain, tailing("--json") as objects:
        tk.dweets.post("kitchen", {"text": "ü\x1b\x9b\u202e", "n": [1]})
        created = tk.dweets.latest("kitchen").index[0].isoformat(timespec="milliseconds").replace("+00:00", "Z")
        assert line_of(plain) == f'{created} {{"text":"ü\\u001b\\u009b\\u202e","n":[1]}}\n'
        record = {"thing": "kitchen", "created": created, "content": {"text": "ü\x1b\x9b\u202e", "n": [1]}}
        assert json.loads(line_of(objects)) == record
        assert deep in called("post", "kitchen", "-", stdin=deep).stdout_bytes
        assert deep.decode() in line_of(objects)
        assert deep.decode() in called("history", "kitchen", "--json").stdout
        for process in (plain, objects):  # their readers end: that is no error
            assert process.stdout is not None
            process.stdout.close()
        tk.dweets.post("kitchen", 1)
        for process in (plain, objects):
            assert process.stderr is not None
            assert (process.wait(60), process.stderr.read()) == (0, "")


def test_ctrl_c_ends_a_waiting_command_with_130(url: str) -> None:
    with tailing() as tail, started("post", "kitchen", "-", stdin=subprocess.PIPE) as post:
        print("1", file=post.stdin, flush=True)
        assert line_of(post)
        assert line_of(tail)
        for process in (tail, post):
            process.send_signal(signal.SIGINT)
            assert process.communicate(timeout=60) == ("", "")
            assert process.returncode == 130


def test_tail_resumes_after_a_restart_or_gives_up(tmp_path: Path) -> None:
    first = Gateway(tmp_path, port=free_port())
    url = f"--url={first.base_url}"
    with tailing(url) as process, tailing(url, "--patience=0") as impatient:
        called("post", "kitchen", "n=1", f"--url={first.base_url}")
        assert line_of(process).endswith('{"n":1}\n')
        first.close()
        assert process.stderr is not None
        assert process.stderr.readline() == "the connection is lost; reconnecting\n"
        assert "refused or closed the connection" in impatient.communicate(timeout=60)[1]
        assert impatient.returncode == 1
        with Gateway(tmp_path, port=urlsplit(first.base_url).port) as second:
            called("post", "kitchen", "n=2", f"--url={second.base_url}")
            assert process.stderr.readline() == "connected again\n"
            assert line_of(process).endswith('{"n":2}\n')


# -- history ------------------------------------------------------------------------------------------------


def test_history_is_the_frame_as_csv(url: str, tk: toolkit.Connection, tmp_path: Path) -> None:
    tk.dweets.post("kitchen", {"air": {"humidity": 48}, "on": True, "=n()": "=1+1", "mixed": [1, "a"]})
    tk.dweets.post("kitchen", {"mixed": "x\ny"})
    frame = tk.dweets.history("kitchen")
    said = called("history", "kitchen").stdout
    called("history", "kitchen", f"--csv={tmp_path / 'k.csv'}")
    assert (tmp_path / "k.csv").read_text("utf-8") == said == called("history", "kitchen", "--csv=-").stdout
    read = pd.read_csv(io.StringIO(said), index_col="created")
    assert pd.to_datetime(read.index).tolist() == frame.index.tolist()
    assert read.columns.tolist() == ["air.humidity", "on", "'=n()", "mixed"]
    assert read["mixed"].tolist() == ['[1,"a"]', '"x\\ny"']
    assert read["'=n()"].iloc[0] == "'=1+1"
    called("history", "kitchen", f"--parquet={tmp_path / 'k.parquet'}")
    written = pd.read_parquet(tmp_path / "k.parquet")
    pd.testing.assert_frame_equal(written.drop(columns="mixed"), frame.drop(columns="mixed"))
    assert written["mixed"].tolist() == ['[1,"a"]', '"x\\ny"']
    said_bytes = called("history", "kitchen", "--parquet=-").stdout_bytes
    pd.testing.assert_frame_equal(pd.read_parquet(io.BytesIO(said_bytes)), written)


def test_range_includes_its_start_but_not_its_end(url: str, tk: toolkit.Connection) -> None:
    tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(700)}), progress=False)
    first = json.loads(called("post", "kitchen", "n=700").stdout)["created"]
    while (second := json.loads(called("post", "kitchen", "n=701").stdout)["created"]) == first:
        pass
    assert '"n":700' in called("history", "kitchen", "--json", "--since", first, "--until", second).stdout
    numbers = [json.loads(line)["content"]["n"] for line in _lines("--since", first[:10], "--until", second)]
    assert numbers == [*range(701)]
    assert _lines("--until", second) == _lines("--since", first[:10], "--until", second)
    assert len(_lines("--since", first[:10], "-n", "600")) == 600
    assert [json.loads(line)["content"]["n"] for line in _lines("-n", "1")] == [701]
    assert _lines() == _lines("-n", "500")


def test_history_warns_of_deleted_dweets_in_one_line() -> None:
    with Gateway(keep=500) as gateway, toolkit.connect(gateway) as tk:
        with pytest.warns(UserWarning, match="700 dweets were sent"):
            tk.dweets.post_frame("kitchen", pd.DataFrame({"n": range(700)}), progress=False)
        said = called("history", "kitchen", "--json", "--since=2026-01-01", f"--url={gateway.base_url}")
    assert said.stderr.startswith("Warning: the gateway has deleted 200 dweets of 'kitchen', all before ")
    assert (len(said.stderr.splitlines()), len(said.stdout.splitlines())) == (1, 500)


def _lines(*arguments: str) -> list[str]:
    return called("history", "kitchen", "--json", *arguments).stdout.splitlines()


def test_no_dweets_give_an_exit_code(url: str, tk: toolkit.Connection, tmp_path: Path) -> None:
    assert called("history", "kitchen", code=1).stderr == "Error: the gateway has no dweet of the thing 'kitchen'\n"
    tk.dweets.post("kitchen", 1)
    options = ["--since=2020-01-01", "--until=2020-01-02", f"--csv={tmp_path / 'k.csv'}"]
    said = called("history", "kitchen", *options, code=1).stderr
    assert said == "Error: no dweet of kitchen arrived in this time; --time FIELD selects by a field's times\n"
    assert not (tmp_path / "k.csv").exists()


def test_an_impossible_history_is_a_usage_error(url: str) -> None:
    for arguments in [
        ["--since=yesterday"],
        ["--since=2026-02-30"],
        ["--until=soon"],
        ["--csv=a", "--json"],
        ["-n", "0"],
    ]:
        assert "Error: " in called("history", "kitchen", *arguments, code=2).stderr


def test_a_csv_on_a_terminal_has_no_control_characters(url: str, tk: toolkit.Connection) -> None:
    tk.dweets.post("kitchen", {"text": "a\x1b]0;owned\x07b\x9bc"})
    ours, its = pty.openpty()
    try:
        subprocess.run([*TOOLKIT, "history", "kitchen"], stdout=its, timeout=60, check=True)
        shown = os.read(ours, 1_000).decode()
    finally:
        os.close(ours)
        os.close(its)
    assert shown.splitlines()[1].endswith(",a\ufffd]0;owned\ufffdb\ufffdc")


def test_service_error_has_no_terminal_control_characters() -> None:
    body = json.dumps({"this": "failed", "with": 400, "because": "no\x1b]0;owned\x07 \x9b2J"}).encode()
    server = LiteralServer(lambda _path, _body: (400, {"Content-Type": "application/json"}, body))
    for content in ("n=1", "-"):
        error = called("post", "kitchen", content, f"--url={server.base_url}", stdin=b"1\n", code=1).stderr
        assert "no\ufffd]0;owned\ufffd \ufffd2J" in error
    server.stop()


# -- write --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("writing")
@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF-"), ("svg", b"<svg")])
def test_file_extension_chooses_the_format(kind: str, magic: bytes, tmp_path: Path) -> None:
    first, second = tmp_path / f"a.{kind}", tmp_path / f"b.{kind.upper()}"
    assert "seed 7>" in called("write", "Dear Ada", "--hand=Molly", "--seed=7", "-o", str(first)).stdout
    called("write", "-", "--hand=molly", "--seed=7", f"--output={second}", stdin=b"Dear Ada\r\n")
    assert first.read_bytes().startswith(magic)
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.usefixtures("writing")
def test_page_size_is_set_and_letter_has_all_pages(tmp_path: Path) -> None:
    letter = ["--hand=Molly", "--seed=1", "--page=A6", "--margin=1cm", "--color=navy", "-o", str(tmp_path / "a.pdf")]
    said = called("write", "-", *letter, stdin=b"Dear Ada, hello! " * 30).stdout
    assert "<Letter by Molly, 2 pages of 297.64 x 419.53" in said
    card = ["--size=9mm", "--margin=1cm", "--background=#ffe", "-o", str(tmp_path / "a.png")]
    assert "<PNG by Molly, 504 x " in called("write", "Dear Ada\n" * 5, "--hand=Molly", *card).stdout
    assert "must end in .pdf" in called("write", "Hi", "--hand=Molly", "--page=A6", *card, code=2).stderr
    unknown = called("write", "Hi", "--hand=Molly", "--page=B5", "-o", str(tmp_path / "b.pdf"), code=2).stderr
    assert "page 'B5' is unknown: give A3, A4, A5, A6, Letter, Legal" in unknown


def test_a_text_is_written_without_a_gateway(no_gateway: Path, tmp_path: Path) -> None:
    called("write", "Dear Ada", "--hand=Molly", "-o", str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 1_000
    assert not no_gateway.exists()


@pytest.mark.usefixtures("writing")
def test_unwritable_file_is_one_line_of_error(tmp_path: Path) -> None:
    file = str(tmp_path / "a.png")
    assert "the nearest titles are Molly" in called("write", "Hi", "--hand=Moly", "-o", file, code=2).stderr
    assert "png, .pdf or .svg" in called("write", "Hi", "--hand=Molly", "-o", "a.gif", code=2).stderr
    missing = run("write", "Hi", "--hand=Molly", "-o", str(tmp_path / "no" / "a.png"), code=1).stderr
    assert missing == f"Error: {tmp_path / 'no' / 'a.png'}: No such file or directory\n"
    assert called("write", "-", "--hand=Molly", "-o", file, stdin=b"\xff", code=1).stderr.endswith("not UTF-8\n")
    assert not Path(file).exists()


# -- pipes, keys and gateways -------------------------------------------------------------------------------


def test_closed_pipe_is_no_error(url: str, tk: toolkit.Connection) -> None:
    tk.dweets.post_frame("kitchen", pd.DataFrame({"text": 500 * ["x" * 1_000]}), progress=False)
    with started("history", "kitchen", "--json") as process:
        assert line_of(process)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert (process.wait(60), process.stderr.read()) == (0, "")
    rows = b"".join(b"%d\n" % n for n in range(100_000))
    pipe = subprocess.PIPE
    with subprocess.Popen([*TOOLKIT, "post", "many", "-"], stdin=pipe, stdout=pipe, stderr=pipe) as post:
        assert post.stdin is not None
        assert post.stdout is not None
        assert post.stderr is not None
        post.stdout.close()
        with pytest.raises(BrokenPipeError):
            post.stdin.write(rows)
        assert (post.wait(60), post.stderr.read()) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
def test_full_disk_is_one_line_of_error(url: str, tk: toolkit.Connection) -> None:
    tk.dweets.post("kitchen", 1)
    with open("/dev/full", "wb") as full:
        command = [*TOOLKIT, "history", "kitchen"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, b"Error: stdin or stdout: No space left on device\n")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [("post kitchen -", 1, "Error: stdin is closed\n"), ("history kitchen", 0, "")],
)
def test_closed_standard_streams_are_no_traceback(
    arguments: str, code: int, error: str, url: str, tk: toolkit.Connection
) -> None:
    tk.dweets.post("kitchen", 1)
    closed = ["bash", "-c", '"$@" <&- >&-', "-", *TOOLKIT, *arguments.split()]
    done = subprocess.run(closed, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, error)


def test_a_locked_thing_needs_its_key() -> None:
    with Gateway(locks={"door": KEY}) as gateway, toolkit.connect(gateway) as tk:
        tk.dweets.post("kitchen", 1)
        tk.dweets.lock("kitchen", lock="door", key=KEY)
        url = f"--url={gateway.base_url}"
        for arguments in READERS:
            for key, why in (("", "this thing is locked and requires a key"), (f"no-{KEY}", "the key you provided")):
                refused = called(*arguments, url, code=1, TOOLKIT_KEY=key)
                assert refused.stdout == ""
                assert refused.stderr.startswith(f"Error: {why}")
                assert KEY not in refused.stderr
            if arguments[0] != "tail":
                assert called(*arguments, url, TOOLKIT_KEY=KEY).stdout
                assert called(*arguments, url, "--key", KEY).stdout
        with tailing(url, TOOLKIT_KEY=KEY) as process:
            assert process.poll() is None


def test_unreachable_gateway_is_one_line_of_error(gateway: Gateway) -> None:
    gateway.close()
    for arguments in READERS:
        said = called(*arguments, f"--url={gateway.base_url}", code=1)
        assert said.stdout == ""
        assert said.stderr.startswith("Error: no answer from ")
        assert said.stderr.count("\n") == 1


def test_invalid_url_is_one_line_of_error() -> None:
    for url in ["ftp://127.0.0.1", "nothing", "http://user:secret@127.0.0.1"]:
        said = called("post", "kitchen", "n=1", f"--url={url}", code=2).stderr
        assert said.startswith("Error: a base URL is http://")
        assert "secret" not in said


def test_the_gateway_of_the_default_folder_is_found(no_gateway: Path) -> None:
    missing = called("post", "kitchen", "n=1", code=1).stderr
    assert missing.startswith(f"Error: no gateway runs in {no_gateway} or on port 8787: start one with `toolkit lab`")
    with started("gateway", "--port=0", f"--data={no_gateway}") as process:
        url = url_of(process)
        assert json.loads(called("post", "kitchen", "n=1").stdout)["content"] == {"n": 1}
        with toolkit.connect(url) as tk:
            assert contents(tk, "kitchen") == [1]
        process.kill()
        process.wait(60)
    assert (no_gateway / "gateway.url").exists()
    assert "Error: no gateway runs in " in called("history", "kitchen", code=1).stderr


def test_printing_rows_loads_no_pandas_and_no_server(url: str, tk: toolkit.Connection) -> None:
    tk.dweets.post("kitchen", {"n": 1})
    commands = (
        "post kitchen n=1",
        "tail kitchen",
        "history kitchen",
        "history kitchen --json --since 2026-01-01",
    )
    program = (
        "import sys\n"
        "from contextlib import suppress\n"
        "from toolkit.cli import main\n"
        "import toolkit.dweets.client.listening as listening\n"
        "listening.Listener.__next__ = lambda self: sys.exit()\n"
        f"for command in {commands!r}:\n"
        "    with suppress(SystemExit):\n"
        "        main(command.split())\n"
        "print(*sys.modules)\n"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    posted, *_, modules = done.stdout.splitlines()
    assert json.loads(posted)["content"] == {"n": 1}
    loaded = set(modules.split())
    heavy = {"pandas", "numpy", "pyarrow", "matplotlib", "ipywidgets", "rocksdict", "httptools", "quickjs", "redis"}
    assert not heavy & loaded
    assert not [name for name in loaded if name.startswith(("toolkit_gateway.stores", "toolkit.connection"))]
