"""The catalogue and the packs: their number, size, licences and names."""

from __future__ import annotations

import re

import numpy as np
import pytest

from data.tools.hands.sources import sources
from toolkit_gateway.ink.catalogue import HANDS_DIR, catalogue
from toolkit_gateway.ink.hand import PACKS_DIR, fallback_chain, load_hand

CROCKFORD = re.compile(r"[0-9A-HJKMNP-TV-Z]{12}")
MOMENT = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{1,6}Z")
KNOWN = {
    "2D5QW0F80001": "Molly", "2D5S18M00002": "Winters", "2D5S46A80003": "Perry", "2D5S46JG0004": "Squire",
    "5WGWVX5G00WA": "Bailey", "5WGWVX9800WC": "Cedar", "7EQMJPSG00H9": "Beekman",
}  # fmt: skip
RATINGS = ["rating_neatness", "rating_cursivity", "rating_embellishment", "rating_character_width"]
LICENCES = HANDS_DIR / "licences"


def test_at_least_30_scripts_in_4_hands_each():
    scripts = {}
    for handwriting in catalogue().values():
        scripts.setdefault(handwriting.script, []).append(handwriting.writer)
    assert len(scripts) >= 30
    assert all(sorted(writers) == [0, 1, 2, 3] for writers in scripts.values())
    assert len(catalogue()) >= 120


def test_ids_titles_and_dates_have_the_documented_form():
    everything = list(catalogue().values())
    assert [h.id for h in everything] == sorted(h.id for h in everything)
    assert len({h.id for h in everything}) == len({h.title.casefold() for h in everything}) == len(everything)
    for handwriting in everything:
        assert CROCKFORD.fullmatch(handwriting.id)
        assert MOMENT.fullmatch(handwriting.date_created)
        assert MOMENT.fullmatch(handwriting.date_modified)
        assert handwriting.date_created <= handwriting.date_modified


def test_known_ids_keep_their_titles():
    assert {known: catalogue()[known].title for known in KNOWN} == KNOWN
    for known in ("31SAZEF000DX", "31SB3NWR00E0", "31SF81NG00ES", "5WGWVXQG00WM", "8X3WQ4D800B0", "2ZK3ZD280058"):
        assert known in catalogue()


def test_ratings_are_integers_around_1400_that_differ():
    for rating in RATINGS:
        values = np.array([getattr(h, rating) for h in catalogue().values()])
        assert values.dtype.kind == "i"
        assert 1000 <= values.min() <= values.max() <= 1800
        assert values.mean() == pytest.approx(1400, abs=15)
        assert len(set(values.tolist())) >= 20


def test_ratings_follow_their_measures():
    by_title = {h.title: h for h in catalogue().values()}
    assert by_title["Molly"].rating_cursivity > by_title["Winters"].rating_cursivity  # joined, print
    assert by_title["Kingsley"].rating_character_width < by_title["Draper"].rating_character_width
    for handwriting in catalogue().values():
        if handwriting.writer == 2:  # the neat one
            others = [h for h in catalogue().values() if h.script == handwriting.script and h.writer == 3]
            assert handwriting.rating_neatness > others[0].rating_neatness


def test_packs_are_small_and_each_has_its_licence():
    packs = sorted(PACKS_DIR.glob("*.npz"))
    assert {pack.stem for pack in packs} == {source.name for source in sources()}
    assert sum(pack.stat().st_size for pack in packs) <= 4_000_000
    assert max(pack.stat().st_size for pack in packs) < 2_000_000
    for source in sources():
        text = (LICENCES / f"{source.name}.txt").read_text("utf-8")
        assert source.package in text
        licence = "apache license" if source.licence == "Apache-2.0" else "sil open font license"
        assert {licence, "copyright"} <= {word for word in (licence, "copyright") if word in text.casefold()}


def test_no_reserved_font_name_is_used():
    declared = re.compile(r"Reserved Font Names? [\"'“]?([A-Z][\w ]+?)[\"'”.,\n]")
    reserved = set()
    for licence in LICENCES.glob("*.txt"):
        reserved |= {name.casefold().strip() for name in declared.findall(licence.read_text("utf-8"))}
    reserved |= {source.package.split("/")[1].replace("-", " ") for source in sources()}
    ours = {h.title.casefold() for h in catalogue().values()} | {source.name for source in sources()}
    assert len(reserved) >= len(sources())
    assert not ours & reserved


def test_pinned_sources_are_exact():
    for source in sources():
        assert re.fullmatch(r"\d+\.\d+\.\d+", source.version)
        assert re.fullmatch(r"sha512-[A-Za-z0-9+/]{86}==", source.integrity)


def test_every_hand_writes_ascii_mostly_without_fallback():
    ascii_signs = [chr(code) for code in range(33, 127)]
    for name in (source.name for source in sources() if source.titles):
        hands = [load_hand(link) for link in fallback_chain(name)]
        assert all(any(sign in hand.characters for hand in hands) for sign in ascii_signs)
        assert sum(sign in hands[0].characters for sign in ascii_signs) >= 90
