"""Mail merge: a file for each row, rows that cannot be, resuming, and what stops everything."""

from __future__ import annotations

import itertools
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pypdfium2
import pytest

import toolkit
from toolkit.errors import InvalidArgument, Unreachable
from toolkit.gateway import Gateway
from toolkit.local_files import write_whole

GUESTS = pd.DataFrame({"name": ["Ada", "Grace", "Zoë"], "sum": [1.5, 20.0, 3.25]}, index=["a", "g", "z"])
TEMPLATE = "Dear {name},\nyou owe us {sum:.2f}. {{Row {number}}}"
SMALL = {"page": "A6", "margin": "1cm", "progress": False}


def text_of(path: str) -> str:
    return pypdfium2.PdfDocument(path)[0].get_textpage().get_text_range()


def test_each_row_becomes_a_letter(hands: toolkit.Connection, tmp_path: Path) -> None:
    folder = tmp_path / "out" / "letters"
    done = hands.handwriting.letters(GUESTS, TEMPLATE, "molly", folder, file_name="{name}", random_seed=7, **SMALL)
    assert done.index.tolist() == ["a", "g", "z"]
    assert done.dtypes.astype(str).to_dict() == {
        "path": "str", "hand": "str", "pages": "Int64", "width": "float64", "height": "float64", "bytes": "Int64",
        "seed": "str", "overflow": "boolean", "is_new": "boolean", "error": "str",
    }  # fmt: skip
    assert done["path"].tolist() == [str(folder / f"{name}.pdf") for name in ("Ada", "Grace", "Zoë")]
    assert text_of(done.loc["g", "path"]).split() == ["Dear", "Grace,", "you", "owe", "us", "20.00.", "{Row", "2}"]
    assert done["seed"].nunique() == 3
    assert done["bytes"].tolist() == [Path(path).stat().st_size for path in done["path"]]
    assert done[["hand", "pages", "overflow", "is_new"]].drop_duplicates().values.tolist() == [
        ["Molly", 1, False, True]
    ]
    assert done["error"].isna().all()


def test_a_column_names_the_hands(hands: toolkit.Connection, tmp_path: Path) -> None:
    frame = GUESTS.assign(by=["Perry", None, "Nobody"])
    with pytest.warns(UserWarning, match="2 of 3 letters could not be written") as warned:
        done = hands.handwriting.letters(frame, "Same words", "by", tmp_path, kind="png", background="white", **SMALL)
    assert warned[0].filename == __file__
    assert done["hand"].fillna("").tolist() == ["Perry", "", ""]
    assert done.loc["g", "error"] == "by is missing"
    assert "there is no handwriting 'Nobody'" in done.loc["z", "error"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["letter-0001.png", "letters.jsonl"]


def test_a_picture_too_small_for_its_text_is_told(hands: toolkit.Connection, tmp_path: Path) -> None:
    frame = GUESTS.assign(text=["short", "long " * 300, "short"])
    with pytest.warns(UserWarning, match="text of 1 of 3 letters did not fit"):
        done = hands.handwriting.letters(frame, "{text}", "Molly", tmp_path, kind="svg", **SMALL)
    assert done["overflow"].tolist() == [False, True, False]
    assert done["pages"].iloc[1] > 1
    assert done[["width", "height"]].drop_duplicates().values.tolist() == [[297.64, 419.53]]  # an A6 in points


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"template": "Dear {nmae}"}, "the template has {nmae}, which is no column: there are name, sum"),
        ({"template": "Dear guest"}, "the template uses no column, so all letters would be the same: write {name}"),
        ({"template": "Dear {name"}, "the template cannot be read: expected '}'.*; write {{ and }} for braces"),
        ({"template": "Dear {}"}, "the template has {}, which is no column"),
        ({"template": "Dear {name.upper}"}, "the template has {name.upper}, which is no column"),
        ({"template": "Dear {name!r}"}, "a field is written as {name} or {name:.2f}"),
        ({"file_name": "{id}"}, "file_name has {id}, which is no column"),
        ({"hand": "Nobody"}, "there is no handwriting 'Nobody'"),
        ({"page": "B5"}, "page 'B5' is unknown"),
        ({"margin": -2}, "margin cannot be negative: -2"),
        ({"background": "white"}, "a PDF has no background"),
        ({"background": "bluish", "kind": "png"}, "'bluish' is no CSS colour"),
        ({"kind": "replay"}, "kind is 'pdf' or 'png' or 'svg', not 'replay'"),
        ({"kind": "png", "dpi": 0}, "dpi is between 1 and 1544 for this page .9000 pixels per side., not 0"),
        ({"kind": "png", "dpi": 1545}, "dpi is between 1 and 1544"),
        ({"frame": GUESTS.set_axis(["name", "name"], axis=1)}, "two columns of the frame have the same name"),
    ],
)
def test_what_no_letter_can_be_is_refused(
    hands: toolkit.Connection, tmp_path: Path, given: dict[str, object], said: str
) -> None:
    call = {"frame": GUESTS, "template": TEMPLATE, "hand": "Molly", "folder": tmp_path / "out", **SMALL, **given}
    with pytest.raises(InvalidArgument, match=said.replace("{", r"\{").replace("}", r"\}")):
        hands.handwriting.letters(**call)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("a/b", "it contains '/'"),
        ("..", "the name is empty"),
        (" ", "the name is empty"),
        (".hidden", "it begins with a dot"),
        ("CON", "Windows reserves it"),
        ("a\nb", r"it contains '\n'"),
        ("x" * 300, "it is longer than 240 bytes"),
        ("ada", "row 1 has the file name 'ada.pdf' too"),
        (None, "name is missing"),
    ],
)
def test_a_name_that_is_no_file_name_is_an_error_of_its_row(
    hands: toolkit.Connection, tmp_path: Path, name: str | None, reason: str
) -> None:
    frame = pd.DataFrame({"name": ["Ada", name]})
    with pytest.warns(UserWarning, match="1 of 2 letters could not be written"):
        done = hands.handwriting.letters(frame, "{number} {name}", "Molly", tmp_path, file_name="{name}", **SMALL)
    assert reason in done["error"].iloc[1]
    assert [path.name for path in tmp_path.glob("*.pdf")] == ["Ada.pdf"]


def test_a_character_that_the_hand_lacks_is_an_error_of_its_row(hands: toolkit.Connection, tmp_path: Path) -> None:
    frame = GUESTS.assign(name=["Ada", "דוד", "Zoë"])
    with pytest.warns(UserWarning, match="1 of 3"):
        done = hands.handwriting.letters(frame, TEMPLATE, "Molly", tmp_path, **SMALL)
    assert done["error"].iloc[1].startswith("text has characters this handwriting cannot write: 'ד' 'ו'")
    assert done["path"].notna().tolist() == [True, False, True]
    fixed = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, **SMALL)
    assert fixed["is_new"].tolist() == [False, True, False]


def test_a_value_that_cannot_be_formatted_is_an_error_of_its_row(hands: toolkit.Connection, tmp_path: Path) -> None:
    frame = pd.DataFrame({"sum": [1.5, "much", 10**400, Decimal("NaN")]}, dtype=object)
    with pytest.warns(UserWarning, match="3 of 4 letters could not be written"):
        done = hands.handwriting.letters(frame, "{sum:.2f}", "Molly", tmp_path, **SMALL)
    assert done["error"].iloc[1].startswith("sum cannot be written as {sum:.2f}: Unknown format code")
    assert done["error"].iloc[2].startswith("sum cannot be written as {sum:.2f}: int too large")
    assert done["error"].iloc[3] == "sum is missing"


def test_a_column_replaces_the_number_of_the_row(hands: toolkit.Connection, tmp_path: Path) -> None:
    done = hands.handwriting.letters(pd.DataFrame({"number": [70, 80]}), "{number}", "Molly", tmp_path, **SMALL)
    assert [Path(path).name for path in done["path"]] == ["letter-0070.pdf", "letter-0080.pdf"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_refused(hands: toolkit.Connection, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidArgument, match="cannot write into the folder .*: Permission denied"):
        hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, **SMALL)


def test_a_folder_that_is_a_file_is_refused(hands: toolkit.Connection, tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    with pytest.raises(InvalidArgument, match="cannot write into the folder .*out: File exists"):
        hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path / "out", **SMALL)


def test_a_file_that_cannot_be_written_stops_and_the_rest_resumes(hands: toolkit.Connection, tmp_path: Path) -> None:
    (tmp_path / "Zoë.pdf").mkdir()
    with pytest.raises(InvalidArgument, match="cannot write .*Zoë.pdf: Is a directory; .* repeat the call"):
        hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, file_name="{name}", **SMALL)
    (tmp_path / "Zoë.pdf").rmdir()
    done = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, file_name="{name}", **SMALL)
    assert done["is_new"].iloc[2]
    assert done["error"].isna().all()


# -- resuming --------------------------------------------------------------------------------------------------


def test_the_same_call_again_writes_nothing(hands: toolkit.Connection, tmp_path: Path) -> None:
    first = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, **SMALL)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.pdf")}
    again = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, **SMALL)
    assert not again["is_new"].any()
    pd.testing.assert_frame_equal(again.drop(columns="is_new"), first.drop(columns="is_new"))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.pdf")} == files


def test_only_letters_that_changed_are_written_again(hands: toolkit.Connection, tmp_path: Path) -> None:
    first = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, **SMALL)
    changed = GUESTS.assign(sum=[1.5, 21.0, 3.25])
    again = hands.handwriting.letters(changed, TEMPLATE, "Molly", tmp_path, **SMALL)
    assert again["is_new"].tolist() == [False, True, False]
    assert "21.00" in text_of(first["path"].iloc[1])
    assert hands.handwriting.letters(changed, TEMPLATE, "Perry", tmp_path, **SMALL)["is_new"].all()


def test_a_file_that_is_not_whole_is_written_again(hands: toolkit.Connection, tmp_path: Path) -> None:
    first = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, random_seed=7, **SMALL)
    half, gone, _ = map(Path, first["path"])
    whole = half.read_bytes()
    half.write_bytes(whole[: len(whole) // 2])
    gone.unlink()
    with (tmp_path / "letters.jsonl").open("ab") as file:  # as a process that is killed leaves it
        file.write(b'\n{"file": "letter-0003.pdf", "requ')
    again = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, random_seed=7, **SMALL)
    assert again["is_new"].tolist() == [True, True, False]
    assert half.read_bytes() == whole
    third = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, random_seed=7, **SMALL)
    assert not third["is_new"].any()


def test_a_seed_belongs_to_a_file_not_to_its_row(hands: toolkit.Connection, tmp_path: Path) -> None:
    first = hands.handwriting.letters(
        GUESTS, "Dear {name}", "Molly", tmp_path, file_name="{name}", random_seed=7, **SMALL
    )
    more = pd.concat([pd.DataFrame({"name": ["Bo"], "sum": [0]}, index=["b"]), GUESTS])
    done = hands.handwriting.letters(more, "Dear {name}", "Molly", tmp_path, file_name="{name}", random_seed=7, **SMALL)
    assert done["is_new"].tolist() == [True, False, False, False]
    assert done["seed"].tolist()[1:] == first["seed"].tolist()


def test_an_interrupted_run_resumes(hands: toolkit.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar raises what Ctrl-C raises, once it has counted 40 of 100 letters."""
    frame = pd.DataFrame({"name": [f"Guest {n}" for n in range(100)]})
    seen: list[int] = []

    class Interrupting:
        def __init__(self, **given: object) -> None:
            self.count = given["initial"]

        def __enter__(self) -> Interrupting:
            return self

        def __exit__(self, *_: object) -> None:
            seen.append(self.count)

        def update(self) -> None:
            self.count += 1
            if self.count == 40 and not seen:
                raise KeyboardInterrupt

    numbers = itertools.count(1)
    cancelled = threading.Event()

    def write(path: Path, data: bytes) -> None:
        if next(numbers) > 40:  # still under way when the bar is interrupted
            assert cancelled.wait(30)
        write_whole(path, data)

    class Pool(ThreadPoolExecutor):
        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=False, cancel_futures=cancel_futures)
            cancelled.set()
            super().shutdown(wait=wait)

    monkeypatch.setattr("toolkit.handwriting.client.mail_merge.tqdm", Interrupting)
    monkeypatch.setattr("toolkit.handwriting.client.mail_merge.write_whole", write)
    monkeypatch.setattr("toolkit.handwriting.client.mail_merge.ThreadPoolExecutor", Pool)
    call = {"frame": frame, "template": "Dear {name}", "hand": "Molly", "folder": tmp_path, **SMALL}
    with pytest.raises(KeyboardInterrupt):
        hands.handwriting.letters(**call)
    written = len(list(tmp_path.glob("*.pdf")))
    assert 40 <= written <= 44  # those that were under way
    assert not list(tmp_path.glob(".*"))
    done = hands.handwriting.letters(**call)
    assert seen == [40, 100]
    assert done["is_new"].sum() == 100 - written
    assert done["error"].isna().all()


def test_a_busy_service_slows_a_run_down_and_its_end_stops_it(tmp_path: Path) -> None:
    gateway = Gateway(config={"handwriting": {"burst": 4, "calls_a_second": 40, "renderers": 1, "waiting": 1}})
    frame = pd.DataFrame({"name": [f"Guest {n}" for n in range(400)]})
    with toolkit.connect(gateway.base_url) as tk:
        done = tk.handwriting.letters(frame[:12], "Dear {name}", "Molly", tmp_path, **SMALL)
        assert done["is_new"].all()
        ended = threading.Thread(target=_close_after, args=(gateway, tmp_path, 15))
        ended.start()
        with pytest.raises(Unreachable):
            tk.handwriting.letters(frame, "Dear {name}", "Molly", tmp_path, **SMALL)
        ended.join()
    files = list(tmp_path.glob("*.pdf"))
    assert 15 <= len(files) < 400
    assert all(path.read_bytes().rstrip().endswith(b"%%EOF") for path in files)


def _close_after(gateway: Gateway, folder: Path, count: int) -> None:
    while len(list(folder.glob("*.pdf"))) < count:
        threading.Event().wait(0.01)
    gateway.close()
