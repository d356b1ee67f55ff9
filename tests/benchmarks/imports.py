"""CPU time of imports and of a command, beside that of Python alone: ``python -m tests.benchmarks.imports``."""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile

_ROUNDS = 7
_PROGRAMS = {
    "Python alone": "pass",
    "import toolkit": "import toolkit",
    "import pandas": "import pandas",
    "tk.dweets": "import toolkit; toolkit.connect('http://127.0.0.1:9').dweets",
    "HistoryExplorer": "import toolkit; toolkit.HistoryExplorer",
    "Gateway": "import toolkit; toolkit.Gateway",
    "toolkit --help": "import sys; sys.argv = ['toolkit', '--help']; from toolkit.cli import main; main()",
}


def cpu_milliseconds(program: str, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main() -> None:
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        for program in _PROGRAMS.values():  # compiles every module once
            cpu_milliseconds(program, environment)
        rounds = [[cpu_milliseconds(each, environment) for each in _PROGRAMS.values()] for _ in range(_ROUNDS)]
    alone = statistics.median(each[0] for each in rounds)
    for name, times in zip(_PROGRAMS, zip(*rounds, strict=True), strict=True):
        print(f"{name:16} {statistics.median(times) - alone:6.0f} ms")


if __name__ == "__main__":
    main()
