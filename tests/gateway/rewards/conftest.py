"""A gateway with one partner, and raw calls to it."""

from __future__ import annotations

from tests.reward_caller import caller as caller
from tests.reward_caller import clock as clock
from tests.reward_caller import started as started
