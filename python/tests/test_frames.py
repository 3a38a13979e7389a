"""Frames of each library come back as they were, with the verdicts beside the rows that they belong to."""

from __future__ import annotations

import csv
import datetime
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from conftest import Start

import rescore

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


def test_a_frame_of_no_known_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="pandas"):
        rescore.score({"name": ["Ann"]})  # type: ignore[type-var]
