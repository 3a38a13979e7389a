"""How runs end: errors, Ctrl-C, progress; and where the program is."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
from conftest import Start

import rescore
from rescore._program import arguments

USERS = polars.DataFrame({
    "name": [f"User {row}" for row in range(400)],
    "email": [f"u{row}@example.com" for row in range(400)],
    "ip": "192.0.2.1",
    "user_agent": "curl",
})


def test_options_are_those_of_the_program() -> None:
    options = {"max_cost": 50, "sandbox": True, "fresh": False, "limit": None, "null": ["NULL", "-"], "map": {"ip": "last_ip"}}
    words = ["--max-cost=50", "--sandbox", "--null=NULL", "--null=-", "--map=ip=last_ip"]
    assert list(arguments(options)) == words


def test_the_program_is_the_one_that_was_installed_with_the_module() -> None:
    assert os.path.dirname(rescore.find()) == os.path.dirname(sys.executable)


def test_errors_have_the_exit_code_and_the_words_of_the_program(service: Start) -> None:
    one = service()
    for options, code, words in [
        ({"sandbox": True, "wrong_option": 1}, 2, "--wrong-option"),
        ({**one.options, "max_calls": 3}, 5, "--max-calls"),
        ({**one.options, "api_key": "wrong"}, 4, "401"),
    ]:
        with pytest.raises(rescore.Error, match=words) as error:
            rescore.score(USERS, **options)
        assert error.value.exit_code == code
    assert one.billed() == 3
    with pytest.raises(rescore.Error, match="nowhere.csv"):
        rescore.score("nowhere.csv", output="scored.csv", sandbox=True)
    with pytest.raises(TypeError, match="output"):
        rescore.score("users.csv", sandbox=True)  # type: ignore[call-overload]


def interrupt(log: Path, event: str, times: int = 1) -> None:
    """What Ctrl-C does, once the log has so many of these events."""
    while not log.exists() or log.read_text().count(f'"{event}"') < times:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_lets_calls_in_flight_finish_and_the_next_run_pays_for_none_of_them(service: Start, tmp_path: Path) -> None:
    one = service("--latency", "200ms")
    options = {**one.options, "concurrency": 8, "log": "run.log"}
    threading.Thread(target=interrupt, args=(tmp_path / "run.log", "attempt_answered")).start()
    with pytest.raises(KeyboardInterrupt):
        rescore.score(USERS, **options)
    ended = json.loads((tmp_path / "run.log").read_text().splitlines()[-1])
    assert (ended["event"], ended["data"]["exit_code"]) == ("run_ended", 130)
    assert 0 < one.billed() < 100
    rescore.score(USERS, **one.options)
    assert one.billed() == 400


def test_a_second_ctrl_c_does_not_wait(service: Start, tmp_path: Path) -> None:
    # A fifth of the calls get no answer, so some of them are out after 30 answers.
    one = service("--fault", "stall=0.2")
    log = tmp_path / "run.log"

    def thrice() -> None:
        interrupt(log, "attempt_answered", 30)
        # A second one that comes as soon as this is the same request.
        interrupt(log, "drain_began")
        time.sleep(1.1)
        interrupt(log, "drain_began")

    threading.Thread(target=thrice).start()
    with pytest.raises(KeyboardInterrupt):
        rescore.score(USERS, log="run.log", timeout="600s", rate="unlimited", **one.options)
    assert '"stopped_immediately"' in log.read_text()


def test_progress_is_shown_if_it_is_asked_for(service: Start, capfd: pytest.CaptureFixture[str]) -> None:
    rescore.score(USERS, sandbox=True)
    assert capfd.readouterr() == ("", "")
    rescore.score(USERS, sandbox=True, progress=True)
    assert "400/400" in capfd.readouterr().err
    with pytest.raises(rescore.Error):
        rescore.score(USERS, max_calls=100, progress=True, **service().options)
    shown = capfd.readouterr().err
    assert "/400" in shown and "stopping" in shown and "100%" not in shown, "it did not get to the end"


def test_without_a_program_the_places_are_named() -> None:
    code = "import os, rescore; os.path.isfile = lambda _: False; rescore.find()"
    found = subprocess.run([sys.executable, "-c", code], env={"PATH": "/nowhere"}, capture_output=True, text=True)
    assert "no program `rescore` in" in found.stderr


def test_users_are_paid_for_once_from_any_folder_and_in_any_form(service: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RESCORE_LEDGER")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    one = service()
    USERS.write_csv(tmp_path / "users.csv")
    try:
        rescore.score(tmp_path / "users.csv", output=tmp_path / "scored.csv", progress=False, **one.options)
    except rescore.Error as error:
        if "lost with this container" in str(error):
            pytest.skip("no file system here outlives this container")
        raise
    billed = one.billed()
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    rescore.score(USERS, progress=False, **one.options)
    rescore.score(tmp_path / "users.csv", output="scored.csv", progress=False, **one.options)
    assert one.billed() == billed > 0


def test_a_run_says_what_it_has_cost_also_if_it_does_not_finish(service: Start) -> None:
    one = service()
    options = {**one.options, "price": "0.004 EUR"}
    summary: dict[str, Any] = {"of": "an earlier run"}
    with pytest.raises(rescore.Error):
        rescore.score(USERS, summary=summary, max_calls=10, **options)
    assert (summary["exit_code"], summary["cost"]["spent"], "of" in summary) == (5, 0.04, False)
    rescore.score(USERS, summary=summary, max_cost="50/day", **options)
    assert (summary["known"], summary["calls"]["sent"], summary["cost"]["spent"]) == (10, 390, 1.56)
    USERS.write_csv("users.csv")
    rescore.score("users.csv", output="scored.csv", summary=summary, **options)
    assert (summary["known"], summary["cost"]["spent"]) == (400, 0.0)
    rescore.score(USERS, summary="summary.json", **options)
    assert json.loads(Path("summary.json").read_text())["known"] == 400
    with pytest.raises(rescore.Error):
        rescore.score(USERS, summary=summary, wrong_option=1, **options)
    assert "cost" not in summary, "nothing of an earlier run"


def test_a_frame_of_pandas_has_the_numbers_beside_its_own(service: Start) -> None:
    users = pandas.DataFrame(USERS.to_dict(as_series=False))
    users.attrs["source"] = "crm"
    scored = rescore.score(users, price=0.004, **service().options)
    told = scored.attrs["rescore"]
    assert (scored.attrs["source"], told["cost"]["spent"], told["rows"]["read"]) == ("crm", 1.6, 400)
    assert "rescore" not in users.attrs


def test_check_counts_what_score_then_sends(service: Start, capfd: pytest.CaptureFixture[str]) -> None:
    one = service()
    options = {**one.options, "price": 0.004, "progress": False}
    rescore.score(USERS, limit=100, **options)
    USERS.write_csv("users.csv")
    for users in [USERS, USERS.to_arrow(), pandas.DataFrame(USERS.to_dict(as_series=False)), Path("users.csv")]:
        checked = rescore.check(users, **options)
        assert (checked["known"], checked["calls"], checked["cost"]["expected"]) == (100, 300, 1.2)
    assert one.billed() == 100
    rescore.score(USERS, **options)
    assert one.billed() == 400
    assert rescore.check(USERS.head(0), **options)["calls"] == 0
    assert "no rows" in capfd.readouterr().err
    with pytest.raises(rescore.Error, match="invalid_ip"):
        rescore.check(USERS.with_columns(ip=polars.lit("-")), **options)
    with pytest.raises(rescore.Error, match="nowhere.csv") as error:
        rescore.check("nowhere.csv", **options)
    assert error.value.exit_code == 2
    with pytest.raises(TypeError, match="DataFrame"):
        rescore.check([1, 2])  # type: ignore[arg-type]
