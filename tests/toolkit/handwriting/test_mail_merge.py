"""Mail merge: a file for each row, invalid rows, resuming, and what stops a run."""

from __future__ import annotations

import os
import threading
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pandas as pd
import pytest

import toolkit
from toolkit.errors import InvalidArgument, Unreachable
from toolkit.handwriting.client.renderer import Renderer
from toolkit_gateway import Gateway

GUESTS = pd.DataFrame({"name": ["Ada", "Grace", "Zoë"], "sum": [1.5, 20.0, 3.25]}, index=["a", "g", "z"])
TEMPLATE = "Dear {name},\nyou owe us {sum:.2f}. {{Row {number}}}"
SMALL = {"page": "A6", "margin": "1cm", "progress": False}


def text_of(path: str) -> str:
    import pypdfium2

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
    frame = GUESTS.assign(by=["Perry", None, "Nobody"], number=[70, 80, 90])
    with pytest.warns(UserWarning, match="2 of 3 letters could not be written") as warned:
        done = hands.handwriting.letters(frame, "Same words", "by", tmp_path, **SMALL)
    assert warned[0].filename == __file__
    assert done["hand"].fillna("").tolist() == ["Perry", "", ""]
    assert done.loc["g", "error"] == "by is missing"
    assert "there is no handwriting 'Nobody'" in done.loc["z", "error"]
    files = sorted(path.name for path in tmp_path.iterdir())
    assert files == ["letter-0070.pdf", "letters.jsonl"], "the column number replaces that of the row"


def test_wrong_templates_and_parameters_write_nothing(hands: toolkit.Connection, tmp_path: Path) -> None:
    right = {"frame": GUESTS, "template": TEMPLATE, "hand": "Molly", "folder": tmp_path / "out", **SMALL}
    for given, said in [
        ({"template": "Dear {nmae}"}, "the template has {nmae}, which is no column: did you mean 'name'"),
        ({"template": "Dear guest"}, "the template uses no column, so all letters would be the same: write {COLUMN}"),
        ({"template": "Dear {name"}, "the template cannot be read: expected '}'.*; write {{ and }} for braces"),
        ({"template": "Dear {}"}, "the template has {}, which is no column"),
        ({"template": "Dear {name.upper}"}, "the template has {name.upper}, which is no column"),
        ({"file_name": "{id}"}, "file_name has {id}, which is no column"),
        ({"hand": "Nobody"}, "there is no handwriting 'Nobody'"),
        ({"page": "B5"}, "page 'B5' is unknown"),
        ({"margin": -2}, "margin cannot be negative: -2"),
        ({"frame": GUESTS.set_axis(["name", "name"], axis=1)}, "two columns have the same name"),
    ]:
        with pytest.raises(InvalidArgument, match=said.replace("{", r"\{").replace("}", r"\}")):
            hands.handwriting.letters(**{**right, **given})
        assert not (tmp_path / "out").exists()


def test_error_of_a_row_does_not_stop_others(hands: toolkit.Connection, tmp_path: Path) -> None:
    rows = [{"name": name, "text": "Hi", "sum": 1.5} for name in ("Ada", "Bo", "Cy")]
    call = {"template": "{text} {sum:.2f}", "hand": "Molly", "folder": tmp_path, "file_name": "{name}", **SMALL}
    for column, value, said in [
        *(
            ("name", name, "cannot be a file name")
            for name in ("a/b", "..", " ", ".b", "CON", "a\nb", "x" * 300, "\ud800")
        ),
        ("name", "ada", "row 1 has the file name 'ada.pdf' too"),
        ("name", None, "name is missing"),
        ("text", "דוד", "text has characters this handwriting cannot write: 'ד' 'ו'"),
        ("sum", "much", "'{text} {sum:.2f}' cannot be filled in: Unknown format code"),
        ("sum", 10**400, "cannot be filled in: int too large"),
        ("sum", Decimal("NaN"), "sum is missing"),
    ]:
        frame = pd.DataFrame([rows[0], {**rows[1], column: value}, rows[2]], dtype=object)
        with pytest.warns(UserWarning, match="1 of 3 letters could not be written"):
            done = hands.handwriting.letters(frame, **call)
        assert said in done["error"].iloc[1]
        assert sorted(path.name for path in tmp_path.glob("*.pdf")) == ["Ada.pdf", "Cy.pdf"]
    assert hands.handwriting.letters(pd.DataFrame(rows), **call)["is_new"].tolist() == [False, True, False]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only_is_refused(hands: toolkit.Connection, tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(InvalidArgument, match="cannot write .*: Permission denied"):
        hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, **SMALL)


def test_a_write_error_stops_and_the_rest_resumes(hands: toolkit.Connection, tmp_path: Path) -> None:
    (tmp_path / "Zoë.pdf").mkdir()
    with pytest.raises(InvalidArgument, match="cannot write .*Zoë.pdf: Is a directory; repeat the call"):
        hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, file_name="{name}", **SMALL)
    (tmp_path / "Zoë.pdf").rmdir()
    done = hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, file_name="{name}", **SMALL)
    assert done["is_new"].iloc[2]
    assert done["error"].isna().all()
    with pytest.raises(InvalidArgument, match="cannot write .*Ada.pdf: File exists"):
        hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path / "Ada.pdf", **SMALL)


# -- resuming --------------------------------------------------------------------------------------------------


def test_only_letters_that_changed_are_written_again(hands: toolkit.Connection, tmp_path: Path) -> None:
    call = {"hand": "Molly", "folder": tmp_path, "random_seed": 7, **SMALL}
    first = hands.handwriting.letters(GUESTS, TEMPLATE, **call)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.pdf")}
    again = hands.handwriting.letters(GUESTS, TEMPLATE, **call)
    assert not again["is_new"].any()
    pd.testing.assert_frame_equal(again.drop(columns="is_new"), first.drop(columns="is_new"))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.pdf")} == files

    half, gone, _ = map(Path, first["path"])
    whole = half.read_bytes()
    half.write_bytes(whole[: len(whole) // 2])
    gone.unlink()
    with (tmp_path / "letters.jsonl").open("ab") as file:  # as a process that is killed leaves it
        file.write(b'\n{"file": "letter-0003.pdf", "requ')
    again = hands.handwriting.letters(GUESTS, TEMPLATE, **call)
    assert again["is_new"].tolist() == [True, True, False]
    assert half.read_bytes() == whole

    changed = GUESTS.assign(sum=[1.5, 21.0, 3.25])
    again = hands.handwriting.letters(changed, TEMPLATE, **call)
    assert again["is_new"].tolist() == [False, True, False]
    assert "21.00" in text_of(first["path"].iloc[1])
    assert hands.handwriting.letters(changed, TEMPLATE, **{**call, "hand": "Perry"})["is_new"].all()


def test_seed_belongs_to_a_file_not_to_its_row(hands: toolkit.Connection, tmp_path: Path) -> None:
    first = hands.handwriting.letters(
        GUESTS, "Dear {name}", "Molly", tmp_path, file_name="{name}", random_seed=7, **SMALL
    )
    more = pd.concat([pd.DataFrame({"name": ["Bo"], "sum": [0]}, index=["b"]), GUESTS])
    done = hands.handwriting.letters(more, "Dear {name}", "Molly", tmp_path, file_name="{name}", random_seed=7, **SMALL)
    assert done["is_new"].tolist() == [True, False, False, False]
    assert done["seed"].tolist()[1:] == first["seed"].tolist()


def test_busy_service_slows_a_run_and_its_end_stops_it(tmp_path: Path) -> None:
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


def test_text_that_does_not_fit_is_reported(
    hands: toolkit.Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    render = Renderer.render_letter
    monkeypatch.setattr(Renderer, "render_letter", lambda *args, **more: replace(render(*args, **more), overflow=True))
    with pytest.warns(UserWarning, match="some ink was cut off"):
        hands.handwriting.letter("Hi", "Molly")
    with pytest.warns(UserWarning, match="text of 3 of 3 letters did not fit"):
        assert hands.handwriting.letters(GUESTS, TEMPLATE, "Molly", tmp_path, **SMALL)["overflow"].all()
