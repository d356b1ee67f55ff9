"""Names that nothing has: which of the known names is nearest, and the sentence that says so."""

import re
from collections.abc import Iterable, Sequence

#: Longer names are cut before they are compared or shown.
_MOST_CHARACTERS = 60
_MOST_KNOWN = 1_000
_MOST_SHOWN = 5
#: The likeness of two names of which one is probably the other, misspelt: one or two letters differ.
MISSPELT = 0.85


def nearest_names(name: str, known: Iterable[str], *, most: int = 1, likeness: float = 0.6) -> list[str]:
    """Return the known names that are most like `name`, in any case; `likeness` is the ratio of difflib, 0 to 1."""
    import difflib  # seldom needed: only after a miss

    by_folded_name = {other[:_MOST_CHARACTERS].casefold(): other for other in reversed(list(known)[:_MOST_KNOWN])}
    near = difflib.get_close_matches(name[:_MOST_CHARACTERS].casefold(), by_folded_name, n=most, cutoff=likeness)
    return [by_folded_name[folded] for folded in near]


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, or that has a part like it: ``position.lat`` for ``lat``."""
    names = list(known)[:_MOST_KNOWN]
    if near := nearest_names(name, names):
        return near[0]
    name_of_part = {part.casefold(): other for other in reversed(names) for part in re.split("[._]", other)}
    parts = nearest_names(name, name_of_part, likeness=MISSPELT)
    return name_of_part[parts[0]] if parts else None


def advice(name: str, known: Sequence[str]) -> str:
    """Return ``: did you mean 'kitchen'?``, or else some known names, or else an empty text."""
    if near := nearest_name(name, known):
        return f": did you mean {_shown(near)}?"
    names = [_shown(other) for other in known[:_MOST_SHOWN]]
    more = [f"{len(known) - _MOST_SHOWN:,} more"] if len(known) > _MOST_SHOWN else []
    return f"; known: {', '.join(names + more)}" if names else ""


def missing_names(problem: str, kind: str, missing: Sequence[str], asked: int, known: Sequence[str]) -> str:
    """Return a sentence such as ``no dweet has the field 'celsisu': did you mean 'celsius'?``.

    `problem` is its beginning (``no dweet has``), `kind` what the names are names of. Of several missing names, the
    sentence has their number and one example, if possible one that is like a known name.
    """
    example = next((name for name in missing if nearest_name(name, known)), missing[0])
    if len(missing) == 1:
        what = f"the {kind} {_shown(example)}"
    else:
        what = f"{len(missing):,} of {asked:,} {kind}s, such as {_shown(example)}"
    return f"{problem} {what}{advice(example, known)}"


def _shown(name: str) -> str:
    return repr(str(name) if len(name) <= _MOST_CHARACTERS else f"{name[:_MOST_CHARACTERS]}...")
