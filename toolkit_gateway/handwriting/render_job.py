"""What a gateway and a child process that renders send each other: here, so that a child starts without asyncio."""

from typing import Self, TypeAlias

import msgspec

from toolkit.errors import Problem
from toolkit.handwriting.handwritten import Handwritten
from toolkit_gateway.ink.parameters import Parameters

#: The parameters, whether only to check the characters, and the limit of CPU time in seconds.
Job: TypeAlias = tuple[Parameters, bool, float]


class Rendering(msgspec.Struct, frozen=True):
    """What a worker sends of a `Handwritten`; its gateway knows the rest."""

    data: bytes
    width: float
    height: float
    lines: int | None
    ink_share: float | None
    overflow: bool
    cut: str
    pages: int
    missing: str

    @classmethod
    def of(cls, written: Handwritten) -> Self:
        return cls(*(getattr(written, name) for name in cls.__struct_fields__))

    def handwritten(self, parameters: Parameters) -> Handwritten:
        kind, title, seed = parameters.kind, parameters.handwriting.title, parameters.random_seed
        return Handwritten(kind=kind, handwriting=title, seed=seed, **msgspec.structs.asdict(self))


#: A rendering, or the problems of the parameters, or (after a bug) the exception type and the line of code.
Outcome: TypeAlias = Rendering | tuple[Problem, ...] | str
