"""Mail merge: a letter for each row of a frame, in a folder; letters that are there and unchanged are skipped."""

import hashlib
import json
import re
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import Formatter
from typing import Any, NamedTuple

import pandas as pd
from tqdm.auto import tqdm

from toolkit import errors
from toolkit.errors import InvalidArgument, counted, warn_caller
from toolkit.frames import check_columns_differ, declared_frame
from toolkit.handwriting.client.renderer import Renderer
from toolkit.handwriting.client.style import PageStyle, query_of
from toolkit.handwriting.handwritten import Handwritten
from toolkit.system.files import write_whole
from toolkit.system.nearest_name import advice

_REPORT_COLUMNS = {
    "path": "str", "hand": "str", "pages": "Int64", "width": "float64", "height": "float64", "bytes": "Int64",
    "seed": "str", "overflow": "boolean", "is_new": "boolean", "error": "str",
}  # fmt: skip
_LIST_FILE_NAME = "letters.jsonl"
# Forbidden characters, a dot or space at the beginning, a space at the end, names that Windows reserves, and no name.
_UNSAFE_NAME = re.compile(
    r'(?is).*[<>:"/\\|?*\x00-\x1f\x7f\ud800-\udfff].*|[ .].*|.* |(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?|'
)
_MAX_NAME_BYTES = 240  # most systems allow file names of 255 bytes
_MAX_ATTEMPTS = 100  # for one letter, while the service is overloaded or the rate limit is reached


class Merge(NamedTuple):
    """What all letters have in common."""

    template: str
    hand: str  # or the name of a column with hands
    file_name: str
    style: PageStyle


class _RowFormatter(Formatter):
    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:
        value = kwargs.get(field_name)  # never an attribute of a value, as in {name.upper}
        if pd.api.types.is_scalar(value) and pd.isna(value):
            raise InvalidArgument(f"{field_name} is missing")
        return value, field_name


def merge_letters(renderer: Renderer, merge: Merge, frame: pd.DataFrame, folder: Path, progress: bool) -> pd.DataFrame:
    """Write the letters that are not in the folder, or have changed; see `HandwritingClient.letters`."""
    named = frame.rename(columns=str)
    _check(merge, named)
    if merge.hand not in named.columns:
        renderer.id_of(merge.hand)
    reports = _write_letters(renderer, merge, named, folder, progress)
    done = declared_frame(reports, _REPORT_COLUMNS).set_index(frame.index)
    count, failed, cut = counted(len(done), "letter"), done[done["error"].notna()], done[done["overflow"]]
    if len(failed):
        example = f"such as that of row {failed.index[0]!r}"
        warn_caller(f"{len(failed):,} of {count} could not be written, {example}: the column error says why")
    if len(cut):
        example = f"such as that of row {cut.index[0]!r}"
        warn_caller(f"text of {len(cut):,} of {count} did not fit, {example}: see the column overflow")
    return done


def _check(merge: Merge, frame: pd.DataFrame) -> None:
    check_columns_differ(frame)
    for subject, template in (("file_name", merge.file_name), ("the template", merge.template)):
        try:
            fields = [field for _, field, _, _ in Formatter().parse(template) if field is not None]
        except ValueError as error:
            raise InvalidArgument(f"{subject} cannot be read: {error}; write {{{{ and }}}} for braces") from None
        for field in fields:
            if field not in ("number", *frame.columns):
                near = advice(field, list(frame.columns))
                raise InvalidArgument(f"{subject} has {{{field}}}, which is no column{near}")
    if not fields and merge.hand not in frame.columns:
        raise InvalidArgument("the template uses no column, so all letters would be the same: write {COLUMN} in it")
    query_of(merge.style, "pdf")  # raises an error for a wrong distance


def _write_letters(
    renderer: Renderer, merge: Merge, frame: pd.DataFrame, folder: Path, progress: bool
) -> Iterator[dict[str, Any]]:
    row_of_name: dict[str, int] = {}
    try:
        finished = _read_list(folder)
        for number, record in enumerate(tqdm(frame.to_dict("records"), unit="letter", disable=not progress), 1):
            values: dict[Any, Any] = {"number": number, **record}
            try:
                name = _file_name(merge, values)
                if (first := row_of_name.setdefault(name.casefold(), number)) != number:  # some systems ignore the case
                    raise InvalidArgument(f"row {first} has the file name '{name}.pdf' too")
                yield _write_letter(renderer, merge, values, folder / f"{name}.pdf", finished)
            except (InvalidArgument, errors.InvalidParameters, errors.ServiceFailure) as error:
                yield {"error": str(error), "is_new": False}
    except OSError as error:
        again = "repeat the call to write the letters that are missing"
        raise InvalidArgument(f"cannot write {error.filename}: {error.strerror}; {again}") from None


def _read_list(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the reports of earlier letters by file name; make folder and list if they do not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _LIST_FILE_NAME).touch()
    finished = {}
    for line in (folder / _LIST_FILE_NAME).read_bytes().splitlines():
        with suppress(ValueError, KeyError, TypeError):  # a line that a crash cut off: the letter is written again
            report = json.loads(line)
            finished[report["file"]] = report
    return finished


def _file_name(merge: Merge, values: Mapping[str, Any]) -> str:
    name = unicodedata.normalize("NFC", _fill(merge.file_name, values))
    if _UNSAFE_NAME.fullmatch(name) or len(name.encode()) > _MAX_NAME_BYTES:
        raise InvalidArgument(f"{name[:80]!r} cannot be a file name: use letters, digits and spaces, at most 240 bytes")
    return name


def _fill(template: str, values: Mapping[str, Any]) -> str:
    try:
        return _RowFormatter().vformat(template, (), values)
    except (ValueError, TypeError, ArithmeticError) as error:
        raise InvalidArgument(f"{template[:40]!r} cannot be filled in: {error}") from None


def _write_letter(
    renderer: Renderer, merge: Merge, values: Mapping[str, Any], path: Path, finished: Mapping[str, dict[str, Any]]
) -> dict[str, Any]:
    text, style = _fill(merge.template, values), merge.style
    hand = str(_RowFormatter().get_field(merge.hand, (), values)[0]) if merge.hand in values else merge.hand
    if (seed := style.get("random_seed")) is not None:  # with one seed for all, all letters would begin alike
        style = {**style, "random_seed": 1 + int(_hash(f"{seed} {path.name}".encode())[:12], 16)}
    request_hash = _hash(json.dumps([text, hand, query_of(style, "pdf")], sort_keys=True).encode())
    report = finished.get(path.name, {})
    is_known = report.get("request_hash") == request_hash and path.is_file()
    if is_known and report.get("file_hash") == _hash(path.read_bytes()):
        return {**report, "path": str(path), "is_new": False}
    rendering = _render_patiently(lambda: renderer.render_letter(text, hand, "pdf", style))
    write_whole(path, rendering.data)
    report = {
        "file": path.name, "request_hash": request_hash, "file_hash": _hash(rendering.data),
        "hand": rendering.handwriting, "pages": rendering.pages, "width": rendering.width, "height": rendering.height,
        "bytes": len(rendering.data), "seed": str(rendering.seed), "overflow": rendering.overflow,
    }  # fmt: skip
    with (path.parent / _LIST_FILE_NAME).open("a", encoding="ascii") as file:
        file.write(f"\n{json.dumps(report)}")  # the line feed is first, because a crash may leave half a line
    return {**report, "path": str(path), "is_new": True}


def _render_patiently(render: Callable[[], Handwritten]) -> Handwritten:
    for _ in range(_MAX_ATTEMPTS - 1):
        try:
            return render()
        except (errors.RateLimited, errors.Overloaded) as error:
            time.sleep(error.retry_after)
    return render()


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
