"""The wire format of handwriting (section B): endpoints, fields, limits, error texts and the JSON body of errors.

The body of an error is ``{"errors": [{"field": ..., "error": ...}]}``, with all problems of a request.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

from toolkit.endpoint import Endpoint
from toolkit.errors import InvalidParameters, Overloaded, Problem, ServiceError, class_of_status

#: A kind of file; ``replay`` is an animated SVG.
FileKind: TypeAlias = Literal["png", "pdf", "svg", "replay"]
LetterFileKind: TypeAlias = Literal["pdf", "png", "svg"]
Pen: TypeAlias = Literal["plain", "ballpoint", "gel", "fountain", "pencil", "felt"]
Paper: TypeAlias = Literal["none", "blank", "ruled", "grid", "kraft"]
Align: TypeAlias = Literal["top", "middle"]
#: What happens to characters that no hand has.
Missing: TypeAlias = Literal["error", "replace", "skip"]

LISTING_PARAMETERS = ("limit", "offset", "order_by", "order_dir")
RENDER_PARAMETERS = (
    "handwriting_id", "text", "handwriting_size", "handwriting_color", "width", "height", "min_padding",
    "line_spacing", "line_spacing_variance", "word_spacing_variance", "random_seed",
)  # fmt: skip
# Additions of this toolkit: without these parameters, a rendering follows the specification.
OWN_PARAMETERS = ("pen", "natural", "paper", "margin", "align", "missing")
_RENDER_QUERY = ("apikey", *RENDER_PARAMETERS, *OWN_PARAMETERS)

GET_LISTING = Endpoint("GET", "/handwritings", ("apikey", *LISTING_PARAMETERS))
GET_HANDWRITING = Endpoint("GET", "/handwritings/{id}", ("apikey",))
# The kinds svg and replay are additions of this toolkit.
CONTENT_TYPES: dict[FileKind, str] = {
    "png": "image/png", "pdf": "application/pdf", "svg": "image/svg+xml", "replay": "image/svg+xml",
}  # fmt: skip
RENDER_ENDPOINTS = {kind: Endpoint("GET", f"/render/{kind}", _RENDER_QUERY) for kind in CONTENT_TYPES}
# Renders a text on as many pages as needed. The text is in the body, all other parameters are in the query.
POST_LETTER = Endpoint("POST", "/render/letter/{kind}", (*_RENDER_QUERY, "page_number"))
LETTER_KINDS: tuple[LetterFileKind, ...] = get_args(LetterFileKind)

RATINGS = ("rating_neatness", "rating_cursivity", "rating_embellishment", "rating_character_width")
HANDWRITING_FIELDS = ("id", "title", "date_created", "date_modified", *RATINGS)
PENS: tuple[Pen, ...] = get_args(Pen)
PAPERS: tuple[Paper, ...] = get_args(Paper)
ALIGNS: tuple[Align, ...] = get_args(Align)
MISSING_CHOICES: tuple[Missing, ...] = get_args(Missing)

#: Headers of a rendering; the specification has none of them.
SEED_HEADER = "X-Handwriting-Seed"
OVERFLOW_HEADER = "X-Handwriting-Overflow"
PAGE_SIZE_HEADER = "X-Handwriting-Size"
LINES_HEADER = "X-Handwriting-Lines"
INK_SHARE_HEADER = "X-Handwriting-Ink"
CUT_HEADER = "X-Handwriting-Cut"
MISSING_HEADER = "X-Handwriting-Missing"
PAGES_HEADER = "X-Handwriting-Pages"

MAX_TEXT_LENGTH = 9000
MAX_PIXELS = 9000  # per side of a PNG, an SVG or a replay
MAX_LETTER_LENGTH, MAX_LETTER_BYTES = 60_000, 1_000_000
DEFAULT_LIMIT, MAX_LIMIT = 200, 1000

#: What the client adds to "unauthorized".
KEY_ADVICE = ': use connect(credentials={"apikey": ...}), or set $TOOLKIT_APIKEY together with $TOOLKIT_URL'

# -- error texts, which clients may compare: do not change them --------------------------------------------

TEXT_TOO_LONG = f"text maximum length is {MAX_TEXT_LENGTH} characters"
LETTER_TOO_LONG = f"text maximum length is {MAX_LETTER_LENGTH} characters"
TEXT_NOT_UTF8 = "text must be valid UTF-8"

_DISTANCE_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*(px|pt|in|cm|mm)\s*", re.IGNORECASE)
_POINTS_OF_UNIT = {"px": 1.0, "pt": 1.0, "in": 72.0, "cm": 72 / 2.54, "mm": 72 / 25.4}


def points_of(distance: str) -> float | None:
    """Convert a distance such as ``4 in``, ``12cm`` or ``20.5px`` to points; None if it cannot be parsed."""
    match = _DISTANCE_PATTERN.fullmatch(distance)
    return float(match[1]) * _POINTS_OF_UNIT[match[2].lower()] if match else None


def error_of(status: int, headers: Mapping[str, str], body: bytes, *, request: str) -> ServiceError:
    """Return the error that a response describes. Its status decides the class; `headers` has lower-case keys."""
    problems = _problems_in(body) or [Problem(None, f"the service answered with status {status}")]
    details: dict[str, Any] = {"status": status, "service": "handwriting", "request": request}
    if status == 400:
        return InvalidParameters(problems, **details)
    error_class = class_of_status(status)
    if (seconds := headers.get("retry-after", "")).isdigit():
        details["retry_after"] = float(seconds)
        error_class = Overloaded if status == 503 else error_class
    message = problems[0].error + (KEY_ADVICE if status == 401 else "")
    return error_class(message, **details)


def _problems_in(body: bytes) -> list[Problem]:
    try:
        entries = json.loads(body)["errors"]
        return [
            Problem(
                entry.get("field"),
                str(entry["error"]),
                tuple(str(missing["character"]) for missing in entry.get("missing_characters", ())),
            )  # fmt: skip
            for entry in entries
        ]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return []
