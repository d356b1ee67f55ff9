"""The four writers and their habits: a handwriting is a script in the hand of one writer."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolkit.keyed_noise import KeyedNoise


@dataclass(frozen=True, slots=True)
class Writer:
    """Habits of one writer. Lengths in cap heights, angles as slopes (rise over run)."""

    name: str  # part of the key of random numbers
    slant: float  # added to the slant of the script
    width: float  # factor on the width of letters and spaces
    nib: float  # factor on the pen width of the script
    haste: int  # number of smoothing passes over a stroke: a fast writer rounds the corners
    shake: float  # factor on every irregularity; below 1 is neat
    wander: float  # factor on the drift of the baseline and the slope of lines
    contrast: float  # factor on the variation of the line width in the script


WRITERS: tuple[Writer, ...] = (
    Writer("own", slant=0.0, width=1.0, nib=1.0, haste=2, shake=1.0, wander=1.0, contrast=0.6),
    Writer("brisk", slant=0.17, width=0.9, nib=0.76, haste=3, shake=1.25, wander=1.3, contrast=0.45),
    Writer("round", slant=-0.13, width=1.14, nib=1.34, haste=2, shake=0.75, wander=0.7, contrast=0.3),
    Writer("easy", slant=0.06, width=1.04, nib=0.9, haste=2, shake=1.55, wander=1.8, contrast=0.75),
)


def writer_of(script: str, number: int) -> Writer:
    """Return writer `number` of a script (a hand pack, such as bailey); habits differ a little between scripts."""
    base = WRITERS[number]
    slant, width, nib, shake, wander = KeyedNoise("writer", script, base.name).uniform("habits", 5).tolist()
    varied = replace(base, shake=base.shake * (1 + 0.12 * shake), wander=base.wander * (1 + 0.2 * wander))
    if number == 0:
        return varied  # keeps the proportions of the script
    return replace(
        varied, slant=base.slant + 0.03 * slant, width=base.width * (1 + 0.03 * width), nib=base.nib * (1 + 0.06 * nib)
    )
