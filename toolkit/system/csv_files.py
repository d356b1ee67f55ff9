"""Cells for spreadsheets: texts that one would execute as a formula begin with an apostrophe."""

import re
from typing import Any

_FORMULA_START, _PLAIN_NUMBER = re.compile(r"[=+\-@\t\r\n]"), re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")


def escaped_formula(cell: Any) -> Any:  # noqa: ANN401
    is_formula = isinstance(cell, str) and _FORMULA_START.match(cell) and not _PLAIN_NUMBER.fullmatch(cell)
    return f"'{cell}" if is_formula else cell
