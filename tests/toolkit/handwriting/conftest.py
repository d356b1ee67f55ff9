"""A gateway that renders, and a connection to it."""

from __future__ import annotations

from tests.handwriting_service import hands as hands
from tests.handwriting_service import running as running
