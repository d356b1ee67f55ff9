"""The handwritings of the service, from the folder ``hands``. Each handwriting is one script, written by one writer."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path

import msgspec

from toolkit_gateway.ink.random_streams import RandomStreams

HANDS_DIR = Path(__file__).parents[1] / "hands"
MAX_NATURAL_NIB = 0.95  # largest factor on the pen width of a script in natural writing


@dataclass(frozen=True, slots=True)
class Handwriting:
    """One handwriting. Over all handwritings, a rating has the mean 1400 and the standard deviation 100."""

    id: str  # 12 characters of Crockford base 32
    title: str  # unique, ignoring case
    date_created: str  # ISO 8601 with fractional seconds and Z
    date_modified: str
    rating_neatness: int
    rating_cursivity: int
    rating_embellishment: int
    rating_character_width: int
    script: str  # name of the hand pack
    writer: int  # index in WRITERS

    def public_fields(self) -> dict[str, str | int]:
        return {k: v for k, v in asdict(self).items() if k not in ("script", "writer")}


@cache
def catalogue() -> Mapping[str, Handwriting]:
    """Return all handwritings by id, in the order of their ids."""
    rows = msgspec.json.decode((HANDS_DIR / "catalogue.json").read_bytes(), type=list[Handwriting])
    return {row.id: row for row in sorted(rows, key=lambda row: row.id)}


@dataclass(frozen=True, slots=True)
class Writer:
    """Habits of one writer. Lengths in cap heights, angles as slopes (rise over run)."""

    name: str  # part of the key of the random numbers: a new name changes the writing
    slant: float  # added to the slant of the script
    width: float  # factor on the width of letters and spaces
    nib: float  # factor on the pen width of the script
    smoothing_passes: int  # over a stroke; more passes round the corners, as a fast writer does
    shake: float  # factor on every irregularity; below 1 is neat
    wander: float  # factor on the drift of the baseline and the slope of lines
    contrast: float  # factor on the variation of the line width in the script


@dataclass(frozen=True, slots=True)
class Habits:
    """More habits of a writer, for natural writing only. Slopes are rise over run."""

    ascender: float  # factor on the height of letters above the x-height
    descender: float  # factor on the depth of letters below the baseline
    digit_size: float  # factor on the size of digits
    join_rate: float  # share of the joinable letter pairs that are joined in a script without joins
    longest_run: int  # the most letters that a joined script joins before the pen is lifted: 5 or 6
    bar_length: float  # factor on the length of crossbars
    bar_slope: float
    dot_shift: float  # how far dots are to the right, in x-heights
    gap: float  # factor on the gaps between words
    line_slope: float


WRITERS: tuple[Writer, ...] = (
    Writer("own", slant=0.0, width=1.0, nib=1.0, smoothing_passes=2, shake=1.0, wander=1.0, contrast=0.6),
    Writer("brisk", slant=0.17, width=0.9, nib=0.76, smoothing_passes=3, shake=1.25, wander=1.3, contrast=0.45),
    Writer("round", slant=-0.13, width=1.14, nib=1.34, smoothing_passes=2, shake=0.75, wander=0.7, contrast=0.3),
    Writer("easy", slant=0.06, width=1.04, nib=0.9, smoothing_passes=2, shake=1.55, wander=1.8, contrast=0.75),
)


def writer_of(script: str, number: int, natural: bool = False) -> Writer:
    """Return ``WRITERS[number]``, varied a little for each script; `natural` limits the nib to `MAX_NATURAL_NIB`."""
    base = WRITERS[number]
    slant, width, nib, shake, wander = RandomStreams("writer", script, base.name).uniform("habits", 5).tolist()
    writer = replace(base, shake=base.shake * (1 + 0.12 * shake), wander=base.wander * (1 + 0.2 * wander))
    if number > 0:  # the first writer keeps the proportions of the script
        slant, width, nib = base.slant + 0.03 * slant, base.width * (1 + 0.03 * width), base.nib * (1 + 0.06 * nib)
        writer = replace(writer, slant=slant, width=width, nib=nib)
    return replace(writer, nib=min(writer.nib, MAX_NATURAL_NIB)) if natural else writer


def habits_of(script: str, writer: str) -> Habits:
    u = RandomStreams("natural", script, writer).uniform("habits", 10).tolist()  # from -1 to 1
    return Habits(
        ascender=1 + 0.1 * u[0],
        descender=1 + 0.12 * u[1],
        digit_size=1 + 0.06 * u[2],
        join_rate=0.5 + 0.15 * u[3],
        longest_run=5 + int(1.49 * u[4] + 0.5),
        bar_length=1 + 0.2 * u[5],
        bar_slope=0.05 + 0.05 * u[6],
        dot_shift=0.12 + 0.06 * u[7],
        gap=0.92 + 0.12 * u[8],
        line_slope=0.006 * u[9],
    )
