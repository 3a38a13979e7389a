"""Score users with the program `rescore`, which is installed with this module.

    import rescore

    scored = rescore.score(users, api_key_file="/etc/rescore/key", max_cost=50, price=0.004)   # pandas, Polars, Arrow
    rescore.score("users.csv", output="scored.csv", sandbox=True)                              # a file

Options are those of `rescore run`: `max_cost=50` is `--max-cost 50`, `sandbox=True` is `--sandbox`, and a list repeats the
option. Paid answers are kept in your ledger, the one of all your runs, so a call with the same users again costs nothing. For DataFrames of Spark there is `rescore.spark`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from ._child import Child, Error
from ._frames import score_frame
from ._program import arguments, find
from ._progress import Progress

__all__ = ["Error", "find", "score"]


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

    `api_key` is given to the program as a variable, since everybody can see arguments. `progress` is shown in terminals and
    notebooks unless it is `False`. A run that does not finish raises `Error`. Ctrl-C lets calls in flight finish and keeps
    their answers; another one, a second later or more, does not wait for them.
    """
    options = {name: value for name, value in options.items() if value is not None}
    environment = dict(os.environ)
    if "api_key" in options:
        environment["RESCORE_API_KEY"] = options.pop("api_key")
    if not isinstance(users, (str, os.PathLike)):
        if output is not None:
            raise TypeError("`output` is for files; the result of a data frame is returned")
        return score_frame(users, options, environment, progress)
    if output is None:
        raise TypeError("a file needs `output`, the path to write to")
    words = [*arguments({**options, "output": os.fspath(output)}), "--", os.fspath(users)]
    with Child(find(), words, environment, Progress(progress)) as child:
        child.discard()
    return Path(output)
