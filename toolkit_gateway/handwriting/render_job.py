"""What a gateway and a child process that renders send each other: here, so that a child starts without asyncio."""

from typing import TypeAlias

from toolkit.errors import Problem
from toolkit_gateway.ink.parameters import Parameters, Rendering

#: The parameters, whether only to check the characters, and the limit of CPU time in seconds.
Job: TypeAlias = tuple[Parameters, bool, float]

#: A rendering, or the problems of the parameters, or (after a bug) the exception type and the line of code.
Outcome: TypeAlias = Rendering | tuple[Problem, ...] | str
