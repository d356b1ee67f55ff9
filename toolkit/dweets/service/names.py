"""Readable names for things that have none: an adjective, a noun and random digits."""

from __future__ import annotations

import random

ADJECTIVES = (
    "able amber bold brave brief bright brisk calm clear clever cosy crisp eager early easy fair fast fine fresh "
    "glad golden good grand great green happy honest jolly keen kind large light lively loyal lucky merry mild neat "
    "nice noble plain proud pure quick quiet rapid rare ready rich round royal safe sharp shiny silent silver simple "
    "smooth snowy soft solid stable steady still sunny sweet swift tidy tiny true vast vivid warm wide wild windy wise"
).split()
NOUNS = (
    "acorn anchor apple arrow aspen atlas bamboo barn basin beach beacon bell birch bird boat book branch bridge brook "
    "cabin camp canal candle canyon castle cedar cherry cliff cloud coast comet coral cove creek crown dawn delta "
    "desert dolphin dune eagle echo elm falcon fern field finch forest fountain garden glacier globe harbor hawk heron "
    "hill island lagoon lake lantern leaf lily maple meadow moon moss mountain oak oasis ocean orchard otter owl panda "
    "pebble pine planet pond reef ridge river robin sail shell shore sky snow sparrow spring star stone stream sun swan"
).split()


def readable_name(source: random.Random) -> str:
    """Return a name such as ``brisk-heron-3f0a``; the digits make equal names unlikely."""
    return f"{source.choice(ADJECTIVES)}-{source.choice(NOUNS)}-{source.randrange(1 << 16):04x}"
