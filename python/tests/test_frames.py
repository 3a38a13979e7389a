"""Frames of each library come back as they were, with the verdicts beside the rows that they belong to."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pyarrow.compute
import pytest
from conftest import Start

import rescore
from rescore._frames import chunks, source

# The rows: two with verdicts (one is called like a missing value), one without a name, one without an address, and one
# that is empty but for its id.
USERS: dict[str, list[Any]] = {
    "id": ["000123", "000124", "000125", "000126", "000127"],
    "name": ["Ann Lee", "nan", None, "Bob \"B\" Lee,\r\nJr", None],
    "email": [None, "b@example.com", "c@example.com", "d@example.com", None],
    "phone": [2015550123, None, None, None, None],
    "ip": ["192.0.2.1", "192.0.2.2", "192.0.2.3", None, None],
    "user_agent": ["curl/8", "a\rb", "c", "d", None],
    "visits": [1, 2, 3, 4, 5],
    "born": [datetime.date(1970, 1, 1)] * 4 + [None],
    "tags": [["a"], [], ["b", "c"], [], []],
    "raw": [b"\xff\x00"] * 5,
}
REASONS = [None, None, "missing_name", "missing_ip", "missing_name"]
ADDED = ["transaction_id", "risk_score", "decision", "reason"]


def of_pandas() -> pandas.DataFrame:
    # The index is neither unique nor sorted, and `phone` is a column of floats, as pandas has them with gaps.
    return pandas.DataFrame(USERS, index=[7, 7, 1, 0, 2])


KINDS = {"pandas": of_pandas, "polars": lambda: polars.DataFrame(USERS), "arrow": lambda: pyarrow.table(USERS)}


def cells(frame: Any, name: str) -> list[Any]:
    if isinstance(frame, pandas.DataFrame):
        return [None if pandas.isna(value) else value for value in frame[name]]
    return frame[name].to_list() if isinstance(frame, polars.DataFrame) else frame[name].to_pylist()


def same(one: Any, other: Any) -> bool:
    if isinstance(one, pandas.DataFrame):
        pandas.testing.assert_frame_equal(one, other)
        return True
    return bool(one.equals(other))


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_comes_back_with_four_more_columns(kind: str, service: Start) -> None:
    frame = KINDS[kind]()
    names = list(USERS)
    scored = rescore.score(frame, phone_region="US", **service().options)
    assert same(scored[names] if kind != "arrow" else scored.select(names), KINDS[kind]())
    assert same(frame, KINDS[kind]()), "the frame that was given stays as it was"
    assert cells(scored, "reason") == REASONS
    for row, reason in enumerate(REASONS):
        found = [cells(scored, name)[row] for name in ADDED[:3]]
        assert found == [None] * 3 if reason else None not in found
    assert isinstance(cells(scored, "risk_score")[0], float)
    assert list(scored.column_names if kind == "arrow" else scored.columns) == names + ADDED
    again = rescore.score(scored, phone_region="US", approve_max=0, review_max=0, sandbox=True)
    assert list(again.column_names if kind == "arrow" else again.columns) == names + ADDED
    assert cells(again, "decision")[0] == "block" != cells(scored, "decision")[0], "they are replaced"


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_stage_sends_rows_of_one_decision_and_leaves_the_others(kind: str, service: Start) -> None:
    one, two = service(), service()
    first = rescore.score(KINDS[kind](), phone_region="US", approve_max=-1, review_max=10, **one.options)
    assert cells(first, "decision")[:2] == ["review", "review"]
    only = {"only": ["decision=review", "id!=000124"]}
    final = rescore.score(first, phone_region="US", approve_max=0, review_max=0, **only, **two.options)
    assert cells(final, "decision")[0] != "review" == cells(final, "decision")[1]
    assert [cells(final, name)[1:] for name in ADDED[:3]] == [cells(first, name)[1:] for name in ADDED[:3]]
    assert two.billed() == 1


def test_what_is_paid_for_with_one_kind_of_frame_is_paid_for_with_all_of_them_and_with_files(service: Start) -> None:
    one = service()
    scored = [rescore.score(make(), phone_region="US", **one.options) for make in KINDS.values()]
    with open("users.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(USERS)
        writer.writerows(zip(*USERS.values()))
    output = rescore.score("users.csv", output="scored.csv", phone_region="US", **one.options)
    with open(output, newline="") as file:
        written = [row["transaction_id"] or None for row in csv.DictReader(file)]
    assert [cells(frame, "transaction_id") for frame in scored] == [written] * 3
    assert one.billed() == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_without_rows_has_the_columns_too(kind: str, service: Start) -> None:
    none = KINDS[kind]()[:0]
    scored = rescore.score(none, sandbox=True, progress=False)
    assert len(scored) == 0 and "float" in str(scored["risk_score"].dtype if kind != "arrow" else "float").lower()


def test_many_rows_keep_their_verdicts(service: Start) -> None:
    rows = range(10_000)
    frame = polars.DataFrame({"name": [f"User {row}" for row in rows], "email": [f"u{row % 5_000}@example.com" for row in rows]})
    scored = rescore.score(frame, sandbox=True, set={"ip": "192.0.2.1", "user_agent": "curl"})
    one = rescore.score(frame[7_777:7_778], sandbox=True, set={"ip": "192.0.2.1", "user_agent": "curl"})
    assert scored[7_777:7_778].equals(one)
    assert scored["transaction_id"].n_unique() == 10_000


def test_rows_that_a_part_leaves_out_have_no_verdict(service: Start) -> None:
    scored = rescore.score(of_pandas(), sandbox=True, phone_region="US", limit=1, column={"all": ""}, prefix="r_")
    assert [cell is not None for cell in cells(scored, "r_decision")] == [True, False, False, False, False]
    assert cells(scored, "r_all")[0].startswith("{")


def test_what_settings_say_about_files_does_not_count_and_no_value_is_no_option(service: Start, tmp_path: Path) -> None:
    (tmp_path / "rescore").mkdir()
    (tmp_path / "rescore" / "config.toml").write_text('output = "x.csv"\nquotes = "off"\nencoding = "windows-1252"\n')
    scored = rescore.score(of_pandas(), sandbox=True, phone_region="US", prefix=None, api_key=None)
    assert cells(scored, "reason") == REASONS


def of_all_types() -> list[Any]:
    """Frames with columns of types that can be text, and of others; the phone is a float."""
    people = {"name": ["Ann", "Bob"], "ip": ["192.0.2.1"] * 2, "user_agent": ["curl/8"] * 2, "phone": [12025550123.0, 12025550124.0]}
    small, bytes_ = [1e-7, 1e20], [b"\xff", b"\x00"]
    mixed = pandas.Series([{"a": 1}, "x"], dtype=object)
    of_pandas = pandas.DataFrame({
        **people, "small": small, "bytes": bytes_, "mixed": mixed, "days": pandas.to_timedelta([1, 2], "D"),
        "of": pandas.interval_range(0, 2), "kind": pandas.Categorical(small), "complex": [1j, 2j],
        "sparse": pandas.arrays.SparseArray(small), "list": pandas.Series([[1], None], dtype=pandas.ArrowDtype(pyarrow.list_(pyarrow.int64()))),
    })  # fmt: skip
    of_polars = polars.DataFrame({
        **people, "small": small, "bytes": bytes_, "days": [datetime.timedelta(1)] * 2, "struct": [{"a": 1}] * 2, "none": [None] * 2,
        "object": polars.Series([object(), object()], dtype=polars.Object),
    })  # fmt: skip
    of_arrow = pyarrow.table({
        **people, "small": small, "bytes": pyarrow.array(bytes_).dictionary_encode(), "view": pyarrow.array(bytes_, pyarrow.binary_view()),
        "user_agent": pyarrow.compute.run_end_encode(pyarrow.array(["curl/8"] * 2)),
        "uuid": pyarrow.array([b"0" * 16] * 2, pyarrow.uuid()), "month": pyarrow.array([pyarrow.MonthDayNano([1, 2, 3])] * 2),
    })  # fmt: skip
    return [of_pandas, of_polars, of_arrow]


@pytest.mark.parametrize("frame", of_all_types(), ids=KINDS)
def test_columns_of_any_type_pass_through_and_floats_are_plain_decimals(frame: Any, service: Start) -> None:
    names = frame.column_names if isinstance(frame, pyarrow.Table) else list(frame.columns)
    sent = b"".join(chunks(source(frame))).decode()
    assert "12025550123" in sent and "0.0000001" in sent and "100000000000000000000" in sent
    assert not {"bytes", "view", "uuid", "month", "struct", "object", "list"} & set(sent.splitlines()[0].split(","))
    scored = rescore.score(frame, phone_region="US", price=1e-5, **service().options)
    assert cells(scored, "reason") == [None, None]
    back = scored.select(names) if isinstance(frame, pyarrow.Table) else scored[names]
    if "object" in names:  # Polars does not compare these.
        back, frame = back.drop("object"), frame.drop("object")
    assert same(back, frame)


def test_a_text_that_is_none_of_unicode_and_a_nul_fail_only_their_rows(service: Start) -> None:
    one = service()
    users = {"name": ["Ann \udc80", "Zo\u00eb", "Bob\0", "Cy"], "note": ["", "", "", "\ud83d"]}
    frame = pandas.DataFrame({name: pandas.Series(values, dtype=object) for name, values in users.items()})
    scored = rescore.score(frame, set={"email": "a@example.com", "ip": "192.0.2.1", "user_agent": "curl"}, **one.options)
    assert cells(scored, "reason") == ["not_utf8", None, "nul_byte", None]
    assert one.billed() == 2
    assert scored["note"].tolist() == users["note"]


def test_what_is_missing_is_said_of_the_columns_of_the_frame(service: Start) -> None:
    with pytest.raises(rescore.Error) as error:
        rescore.score(pandas.DataFrame({"a": [1], "b": [2]}), sandbox=True)
    assert not any(word in str(error.value) for word in ["head", "no-header", "first row"])


def test_a_frame_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="pandas"):
        rescore.score({"name": ["Ann"]})  # type: ignore[type-var]
