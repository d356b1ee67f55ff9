"""Hash tags: what has the same tag can be changed in one commit, because a Redis Cluster keeps it on one node."""

from collections.abc import Iterable


def hash_tag(name: str) -> str | None:
    """Return the tag of a space or a journal, ``rewards`` for ``{rewards}views``, or None if it has none."""
    tag, brace, _ = name[1:].partition("}")
    return tag if brace and name.startswith("{") else None


def common_tag(names: Iterable[str]) -> str:
    """Return the tag of all names, or raise ValueError if they do not have the same one."""
    tags = {hash_tag(name) for name in names}
    tag = tags.pop() if len(tags) == 1 else None
    if not tag:
        raise ValueError("the names in one commit begin with the same tag in braces, as in {rewards}views")
    return tag
