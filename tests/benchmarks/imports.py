"""CPU time of imports and of commands, beside that of Python alone: ``python -m tests.benchmarks.imports``.

``history`` prints 500 dweets as CSV: by the command, by hand with requests and csv, and by hand with pandas.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import tempfile

import pandas as pd

import toolkit

_ROUNDS = 7
_PROGRAMS = {
    "Python alone": "pass",
    "import toolkit": "import toolkit",
    "import pandas": "import pandas",
    "tk.dweets": "import toolkit; toolkit.connect('http://127.0.0.1:9').dweets",
    "HistoryExplorer": "import toolkit; toolkit.HistoryExplorer",
    "Gateway": "import toolkit; toolkit.Gateway",
    "toolkit --help": "import sys; sys.argv = ['toolkit', '--help']; from toolkit.cli import main; main()",
    "toolkit history": "import sys; sys.argv = ['toolkit', 'history', 't']; from toolkit.cli import main; main()",
    "history, requests": """
import csv, os, sys, requests
records = requests.get(os.environ["TOOLKIT_URL"] + "/get/dweets/for/t").json()["with"][::-1]
lines = csv.writer(sys.stdout)
lines.writerow(["created", *records[0]["content"]])
lines.writerows([record["created"], *record["content"].values()] for record in records)
""",
    "history, pandas": """
import os, requests, pandas
records = requests.get(os.environ["TOOLKIT_URL"] + "/get/dweets/for/t").json()["with"][::-1]
print(pandas.json_normalize(records).to_csv(index=False))
""",
}


def cpu_milliseconds(program: str, environment: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", program], env=environment, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)


def main() -> None:
    with tempfile.TemporaryDirectory() as bytecode, toolkit.Gateway() as gateway, toolkit.connect(gateway) as tk:
        readings = pd.DataFrame({"celsius": [number / 7 for number in range(500)], "open": True, "state": "on"})
        tk.dweets.post_frame("t", readings)
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"PYTHONPYCACHEPREFIX": bytecode, "TOOLKIT_URL": gateway.base_url}
        for program in _PROGRAMS.values():  # compiles every module once
            cpu_milliseconds(program, environment)
        rounds = [[cpu_milliseconds(each, environment) for each in _PROGRAMS.values()] for _ in range(_ROUNDS)]
    alone = statistics.median(each[0] for each in rounds)
    for name, times in zip(_PROGRAMS, zip(*rounds, strict=True), strict=True):
        print(f"{name:18} {statistics.median(times) - alone:6.0f} ms")


if __name__ == "__main__":
    main()
