"""Two hands, and pages written in them."""

from __future__ import annotations

from tests.written_pages import molly as molly
from tests.written_pages import page_of as page_of
from tests.written_pages import winters as winters
