"""The texts of errors, which clients may compare: do not change them; and the body of an error."""

import json
from typing import Any

from toolkit.errors import InvalidParameters, Problem, ServiceError

UNAUTHORIZED = "unauthorized"
NOT_FOUND = "not found"
HANDWRITING_NOT_FOUND = "handwriting not found"
METHOD_NOT_ALLOWED = "method not allowed"
RATE_EXCEEDED = "rate limit exceeded"
QUERY_MALFORMED = "query string is malformed"
ID_NOT_FOUND = "handwriting_id not found"
TEXT_HAS_CONTROLS = "text contains control characters"
NO_ROOM = "min_padding leaves no room for text"
MARGIN_TOO_LARGE = "margin leaves no room for text"
PADDING_CENTRES = "min_padding centres the text: give it without margin and align"
LETTER_SIDE = "{} must be a distance: a letter has pages of one size"
LETTER_BODY = 'the body must be a JSON object such as {"text": "Dear Ada"}'
QUEUE_FULL = "too many texts wait to be rendered, try again later"
TOO_BUSY = "the gateway is too busy to render this text now, try again later"
TOO_MUCH_WORK = "rendering this takes too much work: use a smaller page, smaller letters or less text"


def error_body(error: ServiceError) -> bytes:
    problems = error.problems if isinstance(error, InvalidParameters) else (Problem(None, error.message),)
    return json.dumps({"errors": [_problem_entry(problem) for problem in problems]}, ensure_ascii=False).encode("utf-8")


def _problem_entry(problem: Problem) -> dict[str, Any]:
    entry: dict[str, Any] = {} if problem.field is None else {"field": problem.field}
    entry["error"] = problem.error
    if problem.missing_characters:
        entry["missing_characters"] = [{"character": character} for character in problem.missing_characters]
    return entry
