"""A listener on this machine that receives one final fingerprint at the end of the redirects."""

import threading
from concurrent.futures import CancelledError, Future
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from urllib.parse import parse_qs, urlsplit

from toolkit.argument_checks import checked_arguments
from toolkit.errors import SessionClosed, Unreachable
from toolkit.public_names import Closable
from toolkit.secret import Secret

_PATH = "/done"
_PAGE = b"<!doctype html><title>Done</title><p>Your phone was checked. You can close this page."
_POLL_SECONDS = 0.05
_SOCKET_TIMEOUT_SECONDS = 5.0


@checked_arguments
class FinalTargetListener(Closable):
    """Listens on a free port of 127.0.0.1 for one request to ``/done``.

    Pass the listener as ``start_authentication(final_target_url=...)``. No page and no log shows the fingerprint.

    Examples
    --------
    >>> with FinalTargetListener() as listener:
    ...     listener.url.startswith("http://127.0.0.1:")
    True
    """

    def __init__(self) -> None:
        self._received: Future[Secret] = Future()
        # HTTPServer would look up the host name of this machine first.
        self._server = TCPServer(("127.0.0.1", 0), _handler_class(self._received))
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}{_PATH}"
        threading.Thread(target=self._server.serve_forever, args=(_POLL_SECONDS,), daemon=True).start()

    def __repr__(self) -> str:
        return f"<FinalTargetListener at {self.url}>"

    def fingerprint(self, timeout: float = 60.0) -> Secret:
        """Wait for the browser, close the listener and return the final fingerprint.

        Raises Unreachable if no browser comes in time, SessionClosed if the listener was closed first.
        """
        try:
            return self._received.result(min(timeout, threading.TIMEOUT_MAX))
        except TimeoutError:
            raise Unreachable(f"no browser opened {self.url} within {timeout:g} seconds") from None
        except CancelledError:
            raise SessionClosed(f"the listener at {self.url} was closed before a browser came; start another") from None
        finally:
            self.close()

    def close(self) -> None:
        """Stop listening; a second call does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._received.cancel()


def _handler_class(received: Future[Secret]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SOCKET_TIMEOUT_SECONDS

        def do_GET(self) -> None:  # noqa: N802
            parts = urlsplit(self.path)
            fingerprints = parse_qs(parts.query).get("vfp", [])
            is_expected = parts.path == _PATH and len(fingerprints) == 1 and not received.done()
            self.send_response(200 if is_expected else 404)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Referrer-Policy", "no-referrer")
            self.end_headers()
            if is_expected:
                self.wfile.write(_PAGE)
                received.set_result(Secret(fingerprints[0]))

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Write nothing, because the request line contains the fingerprint."""

    return Handler
