"""What the tests of the wheel run in its environment: programs, and calls that need an extra."""

POST_AND_READ = """
import toolkit
with toolkit.connect() as tk:
    tk.dweets.post("kitchen", {"celsius": 21.5})
    print(tk.dweets.latest("kitchen")["celsius"].iloc[0])
    print(toolkit.__file__)
"""
# All that a client does. Its printed values are those of the last lines.
CLIENT = """
import importlib.util, json, pydoc, sys
import toolkit
from toolkit.identity.phones import DemoPhones

HELP = ("toolkit", "add_frame"), ("toolkit_gateway", "need the extra")
with toolkit.connect() as tk:
    tk.dweets.post("kitchen", {"celsius": 21.5})
    tk.dweets.post("kitchen", {"celsius": 31.0})
    device = tk.rewards.new_device_id("acme")
    tk.rewards.start_session(device)
    with tk.identity.session() as session:
        session.authenticate(DemoPhones().handset("no_challenge"))
        session.eligibility()
        payments = session.payment_list()
    widgets = [
        toolkit.HistoryExplorer(tk),
        toolkit.LiveDweets(tk, "kitchen"),
        toolkit.HandwritingExplorer(tk),
        toolkit.RewardsExplorer(tk.rewards, configuration=tk.operator.reward_configuration()),
        toolkit.IdentityWalkthrough(tk),
    ]
    widgets[-1].run_all()
    widgets[-1].try_attack("swap the client")
    print(json.dumps({
        "read": tk.dweets.history("kitchen")["celsius"].tolist(),
        "triggered": tk.dweets.backtest("kitchen", "dweet.celsius > 30")["alert.met"].tolist(),
        "rendered": tk.handwriting.png("Dear Ada", "Molly").data[1:4].decode(),
        "decided": tk.rewards.moment(device, "finished_5k_run", test=True)["reason"].tolist(),
        "payments": len(payments),
        "drawn": [widget.picture()[1:4].decode() for widget in widgets],
        "errors": [str(widget.error) for widget in widgets if widget.error],
        "walked": repr(widgets[-1]),
        "gateway": [name for name in sys.modules if name.startswith("toolkit_gateway")],
        "helped": [word in pydoc.plain(pydoc.render_doc(package)) for package, word in HELP],
        "libraries": [name for name in LIBRARIES if importlib.util.find_spec(name)],
    }))
"""
GATEWAY_LIBRARIES = ["cachetools", "filelock", "httptools", "pydyf", "redis", "rocksdict", "uharfbuzz", "uvloop"]
# What needs an extra, by the extra.
NEEDS = {
    "gateway": ["toolkit.Gateway()", "toolkit.connect()", "toolkit_gateway.Gateway.demo()"],
    "archive": [
        "archive.sql('select 1')",
        "archive.dask()",
        "archive.add_frame('kitchen', frame)",
        "archive.compact()",
    ],
}
COMMANDS = {
    "gateway": ["gateway", "gateway --config=x.toml", "lock list --data=x", "lock new --data=x", "config example",
                "config check x.toml", "move x redis://127.0.0.1", "write Hi --hand=Molly -o hi.png"],
    "lab": ["lab", "lab --no-browser"],
}  # fmt: skip
CALLS = """
import json, shlex, sys
import pandas as pd
from click.testing import CliRunner
import toolkit, toolkit_gateway
from toolkit.cli import main

frame = pd.DataFrame({"celsius": [21.5]}, pd.DatetimeIndex(["2026-01-01"], tz="UTC"))
commands, codes = map(json.loads, sys.argv[1:])
said = {}
for code in codes:
    try:
        archive = toolkit.Archive(".")
        said[code] = repr(eval(code))
    except toolkit.errors.ExtraMissing as error:
        said[code] = str(error)
for command in commands:
    done = CliRunner().invoke(main, shlex.split(command))
    said[command] = f"{done.exit_code} {done.output}"
print(json.dumps(said))
"""
