"""Score users with the program `rescore`, which is installed with this module.

    import rescore

    scored = rescore.score(users, api_key_file="/etc/rescore/key", max_cost="50/day", price=0.004)   # pandas, Polars, Arrow
    rescore.score("users.csv", output="scored.csv", sandbox=True)                                    # a file
    rescore.check(users, price=0.004)["cost"]                                                        # before it is spent

Options are those of `rescore run`: `max_cost="50/day"` is `--max-cost 50/day`, `sandbox=True` is `--sandbox`, and a list repeats the
option. Paid answers are kept in your ledger, the one of all your runs, so a call with the same users again costs nothing. For DataFrames of Spark there is `rescore.spark`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from ._child import Child, Error
from ._frames import ADDED, FORM, chunks, score_frame, source
from ._program import arguments, find
from ._progress import Progress

__all__ = ["Error", "check", "find", "score"]


class Frame(Protocol):
    """A DataFrame of pandas or Polars, or a Table of Arrow."""

    @property
    def columns(self) -> Any: ...


AnyFrame = TypeVar("AnyFrame", bound=Frame)


@overload
def score(users: str | os.PathLike[str], *, output: str | os.PathLike[str], progress: bool | None = None, **options: Any) -> Path: ...
@overload
def score(users: AnyFrame, *, progress: bool | None = None, **options: Any) -> AnyFrame: ...
def score(users: Any, *, output: Any = None, progress: bool | None = None, **options: Any) -> Any:
    """Score the users of a data frame or a file.

    A frame comes back with the same rows, order, index, types and values, and with `transaction_id`, `risk_score`,
    `decision` and `reason`, which says why a row has no verdict. Columns of an earlier run with these names are replaced.
    Personal data goes to the program through a pipe, never to a file. Of a file, the result is the path of `output`.

    What the run has counted, and what it has cost, is put into the dictionary `summary` if there is one, also if the run does
    not finish; a path is that of the program's file. A frame of pandas also has the numbers in `attrs["rescore"]`.

    `api_key` is given to the program as a variable, since everybody can see arguments. `progress` is shown in terminals and
    notebooks unless it is `False`. A run that does not finish raises `Error`. Ctrl-C lets calls in flight finish and keeps
    their answers; another one, a second later or more, does not wait for them.
    """
    options, environment, summary = given(options)
    if not isinstance(users, (str, os.PathLike)):
        if output is not None:
            raise TypeError("`output` is for files; the result of a data frame is returned")
        return score_frame(users, options, environment, progress, summary)
    if output is None:
        raise TypeError("a file needs `output`, the path to write to")
    words = [*arguments({**options, "output": os.fspath(output)}), "--", os.fspath(users)]
    with Child(find(), words, environment, Progress(progress), summary=summary) as child:
        child.discard()
    return Path(output)


def check(users: Frame | str | os.PathLike[str], *, progress: bool | None = None, **options: Any) -> dict[str, Any]:
    """Count what `score` with the same arguments would send, and what that would cost, without a call and without a key.

    The result is that of `rescore check --json`: its `calls` are those that would be made, and `known` are the rows that are
    paid for. Input that cannot be used raises `Error`.
    """
    options, environment, _ = given(options)
    if isinstance(users, (str, os.PathLike)):
        words, rows = [*arguments(options), "--", os.fspath(users)], None
    else:
        words, rows = [*arguments({**ADDED, **options, **FORM})], chunks(source(users))
    with Child(find(), words, environment, Progress(False), command=("check", "--json")) as child:
        if rows is not None:
            child.feed(rows)
        result = child.stdout.readall()
    # Its warnings are no JSON.
    for line in child.last_lines:
        print(line, file=sys.stderr)
    return dict(json.loads(result or b"{}"))


def given(options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str], dict[str, Any]]:
    """The options for the program, its variables, and the dictionary for the summary, which has nothing of an earlier run."""
    options = {name: value for name, value in options.items() if value is not None}
    environment = dict(os.environ)
    summary: dict[str, Any] = {}
    if "api_key" in options:
        environment["RESCORE_API_KEY"] = options.pop("api_key")
    if isinstance(options.get("summary"), dict):
        summary = options.pop("summary")
        summary.clear()
    return options, environment, summary
