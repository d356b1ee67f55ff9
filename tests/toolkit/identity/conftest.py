"""A gateway with a frozen clock, and one client of its identity service."""

from __future__ import annotations

from tests.identity_lab import all_stopped as all_stopped
from tests.identity_lab import lab as lab
from tests.identity_lab import make_lab as make_lab
from tests.identity_lab import shared_lab as shared_lab
from tests.identity_lab import wire as wire
