"""An interrupted call shows its place and no key, also in a traceback that prints every value."""

from __future__ import annotations

import signal
import socket
import threading
from contextlib import suppress

import pytest
from IPython.core.ultratb import VerboseTB

from toolkit.dweets import wire
from toolkit.http_client import HttpSession
from toolkit.secret import Secret

KEY = "a-key-that-opens"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n{"])
def test_an_interrupted_call_shows_no_key(answer: bytes) -> None:
    """Before the answer comes, and in the middle of it."""

    def interrupt(server: socket.socket) -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(answer)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            with suppress(ConnectionResetError):
                connection.recv(1)

    with socket.create_server(("127.0.0.1", 0)) as server:
        interrupting = threading.Thread(target=interrupt, args=[server])
        interrupting.start()
        session = HttpSession(f"http://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(KeyboardInterrupt) as interrupted:
            session.call(wire.GET_LATEST, {"thing": "hall"}, query={"key": Secret(KEY)})
        session.close()
        interrupting.join(60)
    error, (_, *frames) = interrupted.value, interrupted.traceback  # the first is this test, which knows the key
    shown = VerboseTB(theme_name="nocolor").structured_traceback(type(error), error, frames[0]._rawentry)  # noqa: SLF001
    told = "\n".join(shown)
    assert "HttpSession.call" in told
    assert KEY not in told
