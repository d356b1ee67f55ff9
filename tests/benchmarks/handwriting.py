"""Time, memory and legibility of the renderer; prints only: ``python -m tests.benchmarks.handwriting``.

Compares with handright 8.2.0 (same text, page and font) in an environment of its own, made in a temporary folder,
A B A B in turn; needs uv and npm. The table of words that tesseract reads needs Debian's tesseract.
"""

from __future__ import annotations

import argparse
import difflib
import io
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image

from data.tools.hands.sources import sources
from data.tools.npm import fetch_package
from toolkit_gateway.ink.catalogue import Handwriting, catalogue
from toolkit_gateway.ink.parameters import RGB, Parameters
from toolkit_gateway.ink.renderer import render

HANDRIGHT = "handright==8.2.0"
ROUNDS = 15
LETTER = (
    "Dear Hannah,\n\nIt was such a pleasure to see you all at the lake last weekend. The children have not stopped "
    "talking about the canoe and the little green frog they found under the pier. I meant to write sooner, but the "
    "week got away from me as it always does in September.\n\nPlease tell Robert that the tomatoes were excellent "
    "and that I still owe him a proper dinner. We will be home by the third of October, so do come by whenever it "
    "suits you all.\n\nWith love from both of us,\nMargaret and Eleanor"
)
WORDS = (
    "the old house stood near the river and every spring the water came up to the garden wall the children used to "
    "sit on the steps and watch the boats go past while their mother made bread in the kitchen my father kept a small "
    "book where he wrote down the name of each boat and the time it went by he said that one day he would buy one of "
    "them and sail to the sea but the years went on and the book grew thick with names and the boat never came then "
    "one morning he was gone"
)
INK = RGB(20, 30, 90)
PEAK_SCRIPT = (
    "import resource, time\n"
    "from toolkit_gateway.ink.catalogue import catalogue\n"
    "from toolkit_gateway.ink.parameters import Parameters\n"
    "from toolkit_gateway.ink.renderer import render\n"
    "text = 'The quick brown fox jumps over the lazy dog. ' * 200\n"
    "molly = catalogue()['2D5QW0F80001']\n"
    "page = Parameters(molly, 'png', text, handwriting_size=60, width=9000, height=9000, random_seed=1)\n"
    "began = time.perf_counter()\n"
    "done = render(page)\n"
    "milliseconds = 1000 * (time.perf_counter() - began)\n"
    "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, milliseconds, len(done.data))\n"
)


def main() -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--skip-ocr", action="store_true")
    parser.add_argument("--skip-peer", action="store_true")
    arguments = parser.parse_args()
    if not arguments.skip_peer:
        compare()
    typical_pages()
    peak_memory()
    if not arguments.skip_ocr:
        legibility()


def compare() -> None:
    """Print both comparisons with handright."""
    with tempfile.TemporaryDirectory() as folder, handright(Path(folder)) as peer:
        against_handright(peer, "495 characters, 1600 px wide", LETTER[:495], 44, 1600, target=0.35)
        against_handright(peer, "200 characters, defaults", LETTER[:200], 20, 504, target=0.4)


@contextmanager
def handright(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Install handright beside us and start it; yields a process that takes one job a line."""
    python = folder / "venv/bin/python"
    subprocess.run(["uv", "venv", "--quiet", str(folder / "venv")], check=True, timeout=120)
    subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(python), HANDRIGHT], check=True, timeout=300)
    script = Path(__file__).with_name("handright_peer.py")
    with subprocess.Popen([python, str(script)], stdin=-1, stdout=-1, text=True) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def against_handright(peer: subprocess.Popen[str], title: str, text: str, size: int, width: int, target: float) -> None:
    """Render one text here and there in turn; print medians and their ratio."""
    assert peer.stdin
    assert peer.stdout
    source = sources()[0]
    with tempfile.TemporaryDirectory() as folder:
        files = fetch_package(source.package, source.version, source.integrity)
        font = Path(folder) / "font.ttf"
        font.write_bytes(files[source.font])
        page = Parameters(_molly(), "png", text, float(size), INK, float(width), height=None, random_seed=1)
        height = int(render(page).height)
        job = {"font": str(font), "text": text, "size": size, "width": width, "height": height}
        ours, theirs = [], []
        for _ in range(ROUNDS):
            began = time.perf_counter()
            render(page)
            ours.append(1000 * (time.perf_counter() - began))
            print(json.dumps(job), file=peer.stdin, flush=True)
            theirs.append(json.loads(peer.stdout.readline())["ms"])
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"{title}: ours {a:.1f} ms, handright {b:.1f} ms, ratio {a / b:.2f} (target at most {target})")


def typical_pages() -> None:
    """Print milliseconds, warm, for typical and large renderings."""
    molly = _molly()
    long_text = (LETTER + "\n\n") * 20
    cases = [
        ("495 ch, 1600 px, png", Parameters(molly, "png", LETTER[:495], 44.0, INK, 1600.0, None, random_seed=1)),
        ("200 ch, defaults, png", Parameters(molly, "png", LETTER[:200], random_seed=1)),
        ("495 ch, 7 in, pdf", Parameters(molly, "pdf", LETTER[:495], 14.0, INK, 504.0, None, random_seed=1)),
        ("495 ch, 7 in, svg", Parameters(molly, "svg", LETTER[:495], 14.0, INK, 504.0, None, random_seed=1)),
        ("9000 ch, defaults, png", Parameters(molly, "png", long_text[:9000], random_seed=1)),
        ("9000 ch, 2000 px, png", Parameters(molly, "png", long_text[:9000], 20.0, INK, 2000.0, None, random_seed=1)),
        ("9000 ch, 2000 pt, pdf", Parameters(molly, "pdf", long_text[:9000], 20.0, INK, 2000.0, None, random_seed=1)),
    ]
    print(f"\n{'':28}       ms     bytes")
    for title, parameters in cases:
        size = len(render(parameters).data)
        print(f"{title:28}{_median_milliseconds(parameters):9.1f}{size:10}")


def _median_milliseconds(parameters: Parameters) -> float:
    runs = []
    for _ in range(5):
        began = time.perf_counter()
        render(parameters)
        runs.append(1000 * (time.perf_counter() - began))
    return statistics.median(runs)


def _molly() -> Handwriting:
    molly = catalogue()["2D5QW0F80001"]
    assert molly
    return molly


def peak_memory() -> None:
    """Print the largest memory of a fresh process that draws 9000 x 9000 pixels."""
    done = subprocess.run([sys.executable, "-c", PEAK_SCRIPT], capture_output=True, text=True, check=True, timeout=300)
    megabytes, milliseconds, size = done.stdout.split()
    print(f"\n9000 x 9000 px: peak {float(megabytes):.0f} MB, {float(milliseconds):.0f} ms, {int(size)} bytes")


def legibility() -> None:
    """Print which share of 100 words tesseract reads in every handwriting."""
    if not shutil.which("tesseract"):
        print("\nno tesseract: words not read")
        return
    text = " ".join(WORDS.split()[:100])
    scores: dict[str, list[tuple[str, float]]] = {}
    for handwriting in catalogue().values():
        scores.setdefault(handwriting.script, []).append((handwriting.title, words_read(handwriting, text)))
    print("\nwords of 100 that tesseract reads, 40 px, 1600 px wide")
    for row in sorted(scores.values(), key=lambda row: -sum(score for _, score in row)):
        print("".join(f"  {title:12} {score:4.0%}" for title, score in row))
    good = sum(score >= 0.9 for row in scores.values() for _, score in row)
    print(f"handwritings with at least 90 %: {good} of {len(catalogue())} (target 20)")


def words_read(handwriting: Handwriting, text: str, seed: int = 1, natural: bool = False) -> float:
    """Return the share of the words of a page that tesseract reads."""
    page = Parameters(
        handwriting, "png", text, 40.0, width=1600.0, height=None, line_spacing=1.8, min_padding=30.0,
        random_seed=seed + 1, natural=natural,
    )  # fmt: skip
    ink = Image.open(io.BytesIO(render(page).data))
    paper = Image.new("RGBA", ink.size, "white")
    paper.alpha_composite(ink)
    data = io.BytesIO()
    paper.convert("L").save(data, "PNG", dpi=(300, 300))
    command = ["tesseract", "stdin", "stdout", "-l", "eng", "--psm", "6"]
    read = subprocess.run(command, input=data.getvalue(), capture_output=True, check=True, timeout=120).stdout.decode()
    return share_found(*([word.strip(".,;:'").lower() for word in words.split()] for words in (text, read)))


def share_found(expected: list[str], found: list[str]) -> float:
    """Return the share of the expected words that are found in their order."""
    blocks = difflib.SequenceMatcher(None, expected, found, autojunk=False).get_matching_blocks()
    return sum(block.size for block in blocks) / len(expected)


if __name__ == "__main__":
    main()
