"""Keys are never shown: not in responses, logs, errors, tracebacks, representations or files."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import toolkit
from tests.conftest import operator_of
from tests.mail_server import eventually
from toolkit.connection import Connection
from toolkit.errors import DataWarning, ToolkitError
from toolkit.secret import Secret
from toolkit_gateway import Gateway

# Short and odd enough not to be found by accident, with characters that are encoded on their way.
MASTER = "Zx9-master+k/y=%20ü"
WRONG = "Zx9-wrong+k/y=%20ü"
PIECES = ("Zx9", "k%2Fy", "k/y")


def everything_that_can_fail(tk: Connection, key: str | Secret) -> list[Callable[[], object]]:
    return [
        lambda: tk.dweets.post("garage", 1, key=key),
        lambda: tk.dweets.latest("garage", key=key),
        lambda: tk.dweets.history("garage", key=key),
        lambda: next(tk.dweets.listen("garage", key=key)),
        lambda: tk.dweets.collect("garage", n=1, key=key),
        lambda: tk.dweets.lock("garage", lock="garage-lock", key=key),
        lambda: tk.dweets.unlock("garage", key=key),
        lambda: tk.dweets.remove_lock("garage-lock", key=key),
        lambda: tk.dweets.set_alert("garage", who="a@b.example", condition="return true", key=key),
        lambda: tk.dweets.get_alert("garage", key=key),
        lambda: tk.dweets.remove_alert("garage", key=key),
        lambda: tk.dweets.backtest("garage", "return true", key=key),
    ]


def shown_by(work: Callable[[], object]) -> str:
    """Return all that a notebook would show of the error, with its chain."""
    with pytest.raises(ToolkitError) as caught:
        work()
    error = caught.value
    chain = "".join(traceback.format_exception(error))
    return f"{error!r} {error} {vars(error)} {chain}"


def test_no_key_in_any_error_log_or_traceback(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG), Gateway(locks={"garage-lock": MASTER}) as gateway:
        with toolkit.connect(gateway) as tk:
            tk.dweets.lock("garage", lock="garage-lock", key=MASTER)
            tk.dweets.post("garage", {"n": 1}, key=Secret(MASTER))
            for key in (WRONG, Secret(WRONG)):
                shown = [shown_by(work) for work in everything_that_can_fail(tk, key)]
                assert all(piece not in text for text in shown for piece in PIECES)
        gateway.close()
        with toolkit.connect(gateway) as tk:  # nobody answers: the texts of HTTP libraries print the whole URL
            shown = [shown_by(work) for work in everything_that_can_fail(tk, MASTER)]
            assert all("no answer from" in text for text in shown)
            assert all(piece not in text for text in shown for piece in PIECES)
    assert any(record.name == "toolkit_gateway" for record in caplog.records)
    assert all(piece not in record.getMessage() for record in caplog.records for piece in PIECES)


def test_no_key_in_any_representation() -> None:
    with Gateway(locks={"garage-lock": MASTER}) as gateway, toolkit.connect(gateway) as tk:
        issued = operator_of(gateway).issue_lock()
        keys = (issued.master_key.reveal(), issued.read_key.reveal())
        frame = tk.dweets.lock("garage", lock="garage-lock", key=MASTER)
        shown = [repr(gateway), repr(tk), repr(tk.dweets), repr(issued), f"{issued}", str(frame), str(frame.attrs)]
        assert all(key not in text for text in shown for key in (*keys, *PIECES))


def test_no_key_in_the_folder(tmp_path: Path) -> None:
    with Gateway(tmp_path, locks={"garage-lock": MASTER}) as gateway, toolkit.connect(gateway) as tk:
        issued = operator_of(gateway).issue_lock()
        tk.dweets.lock("garage", lock="garage-lock", key=MASTER)
        tk.dweets.lock("attic", lock=issued.lock, key=issued.master_key)
        with pytest.warns(DataWarning, match="no mail server"):
            tk.dweets.set_alert("attic", who="a@b.example", condition="return true", key=issued.master_key)
        tk.dweets.post("attic", {"n": 1}, key=issued.master_key)
        # Not while its file is being written: that has another name until it is whole.
        eventually(lambda: operator_of(gateway).outbox()["state"].tolist() == ["kept"])
        running = held_by(tmp_path)
    for held in (running, held_by(tmp_path)):
        assert b"garage-lock" in held
        for key in (MASTER, issued.master_key.reveal(), issued.read_key.reveal()):
            assert key.encode() not in held


def held_by(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
