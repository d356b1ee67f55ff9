"""Commands to Redis, and how those that wait are put together: all appends to one hash tag are one script call."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from importlib.resources import files
from typing import Any

from toolkit_gateway.stores.group_commit import Request

Argument = bytes | str | int

_BYTES_PER_COMMAND = 600
# What is sent at once, with one deadline, is at most about this large: it takes Redis some tenths of a second.
_MAX_BYTES_AT_ONCE = 4 * 1024 * 1024
# One script call makes no more appends than this, so that other clients of the server do not wait long.
_APPENDS_PER_GROUP = 250

# All keys of one call have the same hash tag and so the same slot, as a cluster requires.
_FILES_OF_SCRIPTS = (
    ("journal_functions.lua", "append.lua"),
    ("record_functions.lua", "records.lua"),
    ("refuse_at_once.lua", "journal_functions.lua", "record_functions.lua", "commit.lua"),
    ("beat.lua",),
    ("copy.lua",),
)
SCRIPTS = [b"".join(files(__package__).joinpath(name).read_bytes() for name in names) for names in _FILES_OF_SCRIPTS]
_HASHES = [hashlib.sha1(text, usedforsecurity=False).hexdigest().encode() for text in SCRIPTS]
APPEND, RECORDS, COMMIT, BEAT, COPY = _HASHES


class Command(Request[Any]):
    """One command or script call on keys of a hash tag; `read` turns the response into the result.

    Commands with `in_order` are done, and their responses read, in the order of their submission.
    """

    __slots__ = ("arguments", "in_order", "is_append", "read", "size", "started", "tag", "writes")

    def __init__(
        self,
        tag: str,
        *arguments: Argument,
        script: bytes = b"",
        keys: Sequence[bytes] = (),
        read: Callable[[Any], Any] = lambda response: response,
        in_order: bool = True,
    ) -> None:
        super().__init__()
        # An argument that cannot be encoded fails here, before it shares a batch with other commands.
        encoded = [part.encode("utf-8") if isinstance(part, str) else part for part in arguments]
        self.arguments = [b"EVALSHA", script, len(keys), *keys, *encoded] if script else encoded
        self.tag, self.read, self.in_order = tag, read, in_order
        self.writes, self.is_append = bool(script), script == APPEND
        self.started = self.future.get_loop().time()
        self.size = _BYTES_PER_COMMAND

    def arguments_of(self, group: Sequence[Any]) -> Sequence[Argument]:
        return self.arguments

    def read_response(self, group: Sequence[Any], response: Any) -> None:  # noqa: ANN401
        self.result = self.read(response)
        self.settle()


Group = Sequence[Command]  # commands that are sent to Redis as one


def parts_of(commands: Sequence[Command]) -> Iterator[list[Command]]:
    part, size = list[Command](), 0
    for command in commands:
        part.append(command)
        size += command.size
        if size >= _MAX_BYTES_AT_ONCE:
            yield part
            part, size = [], 0
    if part:
        yield part


def grouped(commands: Sequence[Command]) -> list[Group]:
    """Return each command alone, then the appends to each hash tag together."""
    groups = [[command] for command in commands if not command.is_append]
    open_groups: dict[str, list[Command]] = {}
    for append in [command for command in commands if command.is_append]:
        group = open_groups.get(append.tag, [])
        if len(group) % _APPENDS_PER_GROUP == 0:
            group = open_groups[append.tag] = []
            groups.append(group)
        group.append(append)
    return list(groups)
