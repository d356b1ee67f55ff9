"""A server with literal responses, as of a broken or hostile gateway; it keeps the requests."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Reply = tuple[int, dict[str, str], bytes]


class LiteralServer:
    """Answers every request by what `answer` makes of it; remembers request lines, headers and bodies."""

    def __init__(self, answer: Callable[[str, bytes], Reply | None]) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.requests.append((f"{self.command} {self.path}", dict(self.headers), body))
                reply = answer(self.path, body)
                if reply is None:  # hang up without a word
                    self.close_connection = True
                    self.connection.close()
                    return
                status, headers, payload = reply
                self.send_response(status)
                for name, value in {"Content-Length": str(len(payload)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(payload)

            do_GET = do_POST = handle_any

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def envelope(body: bytes, response: Any = None, **fields: Any) -> Reply:
    request_id = json.loads(body).get("RequestId")
    whole = {"RequestId": request_id, "Status": 0, "Description": "Success.", "Response": response, **fields}
    return 200, {"Content-Type": "application/json"}, json.dumps(whole).encode()
