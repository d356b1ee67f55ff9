"""Sphinx extension: the gallery, a picture of each widget and plot as the tutorials show it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx

HERE = Path(__file__).parent
CAPTIONS = {
    "Chart": "`frame.dweets.chart()`: point, zoom, pan",
    "HistoryExplorer": "`toolkit.HistoryExplorer`: histories of things and archives",
    "LiveDweets": "`toolkit.LiveDweets`: things as they post",
    "HandwritingExplorer": "`toolkit.HandwritingExplorer`: a letter, its pages, 120 hands",
    "RewardsExplorer": "`toolkit.RewardsExplorer`: before and after a rule changes",
    "IdentityWalkthrough": "`toolkit.IdentityWalkthrough`: the flow, step by step, and its attacks",
    "RewardPage": "`tk.rewards.page`: what a user sees",
    "PNG": "`tk.handwriting.png`",
    "Letter": "`tk.handwriting.letter`",
    "Contact": "`tk.handwriting.sweep` and `contact_sheet`",
    "Figure": "`toolkit.rewards.plot`, and other plots of matplotlib",
}


def pictures() -> Iterator[tuple[str, str, bytes]]:
    """Yield the kind, the tutorial and the picture of each output that has one."""
    for path in sorted((HERE.parent / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_bytes())["cells"]:
            for output in cell.get("outputs", ()):
                data = output.get("data", {})
                kind = re.match(r"<(\w+)", "".join(data.get("text/plain", "")))
                if kind and "image/png" in data:
                    yield kind[1], path.stem, base64.b64decode(data["image/png"])


def write_page(app: Sphinx) -> None:
    folder = HERE / "gallery"
    folder.mkdir(exist_ok=True)
    first: dict[str, tuple[str, bytes]] = {}
    for kind, tutorial, picture in pictures():
        first.setdefault(kind, (tutorial, picture))
    parts = ["# Gallery", "Each picture comes from a tutorial."]
    for kind, caption in CAPTIONS.items():
        tutorial, picture = first[kind]
        (folder / f"{kind}.png").write_bytes(picture)
        parts.append(f"## {caption}\n\n![{kind}]({kind}.png)\n\nFrom [the tutorial](../tutorials/{tutorial}.ipynb).")
    (folder / "index.md").write_text("\n\n".join(parts) + "\n", "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("builder-inited", write_page)
    return {"parallel_read_safe": True}
