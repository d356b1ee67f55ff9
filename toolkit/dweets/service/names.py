"""Readable names for things that have none: an adjective and a noun."""

from __future__ import annotations

import random

ADJECTIVES = (
    """
    able amber ample apt bold brave breezy brief bright brisk calm candid careful cheery chief civil clear clever
    cosy crisp curious daring dear deep eager early easy even exact fair famous fast fine firm fleet fluent fond
    free fresh frank full gentle glad golden good grand great green handy happy hardy hearty honest humble ideal
    jolly just keen kind large late lawful lean level light likely lively local loyal lucid lucky major mellow merry
    mild mindful modest neat new nice nimble noble open patient plain pleasant polite prime proper proud pure quick
    quiet rapid rare ready regal rich ripe robust round royal safe sage sandy serene sharp shiny silent silver
    simple sincere sleek smart smooth snowy social soft solid sound spare stable steady still stout sturdy subtle
    sunny super sure sweet swift tame tidy tiny tranquil trim true trusty upbeat urban useful vast vital vivid warm
    wary wide wild willing windy wise witty worthy young zesty
    """
).split()
NOUNS = (
    """
    acorn anchor apple arch arrow aspen atlas badge bamboo banjo barn basil basin beach beacon bell birch bird bloom
    boat book branch bread breeze brick bridge brook cabin camp canal candle canoe canyon castle cedar cello chalk
    cherry cliff clock cloud clover coast comet compass coral cove creek crown daisy dawn delta desert dolphin drum
    dune eagle echo elm ember falcon fern ferry field finch fjord flame flute forest fountain fox garden gate
    glacier glen globe grove harbor harp hawk hazel heron hill horizon iris island ivy jasmine kayak kettle kite
    lagoon lake lantern lark leaf lemon library lily linden lotus lynx maple marble market meadow melon mill mint
    mirror moon moss mountain oak oasis ocean olive orbit orchard otter owl oyster palm panda path peach pebble
    pepper piano pier pine planet plum pond poplar prairie quartz quill rain raven reef ridge river robin rocket
    rose sail sand saturn seal shell shore sky snow sparrow spring spruce star stone stream summit sun swan temple
    thistle tide tiger torch tower trail tree tulip turtle valley violet walnut wave willow wind window wood wren
    """
).split()


def readable_name(source: random.Random) -> str:
    """Return a name such as ``brisk-heron-3f0a``; the digits tell apart two callers that get the same words."""
    return f"{source.choice(ADJECTIVES)}-{source.choice(NOUNS)}-{source.randrange(1 << 16):04x}"
