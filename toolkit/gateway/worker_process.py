"""One of several gateway processes: does as the first line of its input says, and ends with that input.

The other end of the input is the supervisor's. However that ends, also by ``kill -9``, the system closes it, so that
no worker is left alone.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import threading
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.gateway.foreground import END_SIGNALS, log_to_stderr, settle_memory
from toolkit.gateway.options import GatewayOptions
from toolkit.gateway.shared_port import listener
from toolkit.gateway.stores import StoreUnavailable


def main() -> None:
    """Serve until the input ends or SIGTERM."""
    ended = threading.Event()
    # Ctrl-C and a closed terminal go to the whole group: the supervisor hears them and ends its workers.
    for number in END_SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: ended.set())
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is no answer
    order = sys.stdin.buffer.readline()
    if order:
        threading.Thread(target=_wait_for_end_of_input, args=[ended], daemon=True).start()
        sys.exit(_serve(json.loads(order), answers, ended))


def _wait_for_end_of_input(ended: threading.Event) -> None:
    while os.read(sys.stdin.fileno(), 4096):
        continue
    ended.set()


def _serve(order: dict[str, Any], answers: Any, ended: threading.Event) -> int:  # noqa: ANN401
    log_to_stderr(order["log_level"] if order["says_how_it_starts"] else "error")
    options, port = GatewayOptions.from_json(order["options"]), order["port"]
    try:
        with options.start(port["host"], port["port"], listener(**port)):
            settle_memory()
            logging.getLogger("toolkit.gateway").setLevel(order["log_level"].upper())
            print(json.dumps({"ready": True}), file=answers, flush=True)
            answers.close()
            ended.wait()
    except (ToolkitError, StoreUnavailable) as error:
        if answers.closed:
            raise
        print(json.dumps({"refused": str(error)}), file=answers, flush=True)
        return 1
    return 0
