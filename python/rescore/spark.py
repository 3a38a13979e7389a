"""Score the users of a DataFrame of Spark, with one process of `rescore` for each task.

    import rescore.spark

    scored = rescore.spark.score(
        spark.read.parquet("users"),
        fields={"name": "full_name", "email": "email", "ip": "device.ip", "user_agent": "device.agent"},
        base_url="https://api.example.com", service_id="my-app", api_key_file="{files}/api-key",
        ledger="postgresql://scorer@db.example.com/scoring", environment={"PGPASSFILE": "{files}/pgpass"},
    )
    scored.write.parquet("scored")

Spark runs tasks again, so all of them must share a ledger: docs/many-machines.md says how, and what each failure costs.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow  # type: ignore[import-untyped]
from pyspark import SparkFiles
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, FloatType, StringType, StructType

from ._child import Child
from ._frames import FORM, arrow_text, header
from ._program import arguments, find
from ._progress import Progress

__all__ = ["score"]

FIELDS = ("name", "email", "phone", "ip", "user_agent")

ADDED = ("transaction_id", "risk_score", "decision", "reason")

# What the columns that are sent are called on their way, so that none has the name of another one.
SENT = "rescore_sends_"


def score(
    frame: DataFrame,
    *,
    fields: Mapping[str, str | Column] | None = None,
    prefix: str = "",
    environment: Mapping[str, str] | None = None,
    program: str | None = None,
    **options: Any,
) -> DataFrame:
    """The frame with the columns `transaction_id`, `risk_score`, `decision` and `reason`, each after the prefix.

    `fields` says which column, nested field (`device.ip`) or expression is which of `name`, `email`, `phone`, `ip` and
    `user_agent`; by default, columns with these names. Only they leave Spark. Options are those of `rescore run`.

    The program is the one beside this module on the executors, or `program`. It gets the variables of `environment`, and
    none of the executor's. In all of these, `{files}` is the directory of what `--files` and `--archives` have shipped.

    Nothing is sent before an action needs the rows, and each further action sends them again: write or persist them first.
    """
    fields = fields if fields is not None else {name: name for name in FIELDS if name in frame.columns}
    if unknown := set(fields) - set(FIELDS):
        raise ValueError(f"fields: {sorted(unknown)}; there are only {', '.join(FIELDS)}")
    if clash := {(prefix + name).lower() for name in ADDED} & {name.lower() for name in frame.columns}:
        raise ValueError(f"the columns {sorted(clash)} are there already: give a prefix, such as `rescore_`")
    if "api_key" in options:
        raise ValueError("Spark shows options in its plans: ship the key with `--files`, and give api_key_file='{files}/NAME'")
    schema = StructType(list(frame.schema.fields))
    for name in ADDED:
        schema.add(prefix + name, DoubleType() if name == "risk_score" else StringType())
    # Spark itself finds nested fields, evaluates expressions and makes text of them; its floats have exponents.
    columns = {SENT + name: F.col(at) if isinstance(at, str) else at for name, at in fields.items()}
    kinds = frame.select(*columns.values()).schema
    is_float = [isinstance(kind.dataType, (DoubleType, FloatType)) for kind in kinds]
    sent = [(at if float_ else at.cast("string")).alias(name) for (name, at), float_ in zip(columns.items(), is_float)]
    # A row that fails is data, with its reason; it must not fail the task.
    options = {"accept_failures": "100%", **options, "prefix": "", "reason_column": "reason", **FORM}
    words = list(arguments(options))
    task = functools.partial(scored_batches, list(fields), words, dict(environment or {}), program, prefix)
    return frame.select("*", *sent).mapInArrow(task, schema)


def scored_batches(
    names: Sequence[str],
    words: Sequence[str],
    environment: Mapping[str, str],
    program: str | None,
    prefix: str,
    batches: Iterable[pyarrow.RecordBatch],
) -> Iterator[pyarrow.RecordBatch]:
    """The batches of a task with their answers in place of their last columns, which are what is sent.

    One child scores all of them. If there are no rows, there is none.
    """
    batches = (batch for batch in batches if batch.num_rows > 0)
    first = next(batches, None)
    if first is None:
        return
    # Batches that the child has, perhaps in part. It reads only so far ahead, so they are few.
    waiting: deque[pyarrow.RecordBatch] = deque()

    def chunks() -> Iterator[bytes]:
        yield header(names)
        for batch in itertools.chain([first], batches):
            waiting.append(batch)
            yield arrow_text(batch.columns[-len(names) :], 0, batch.num_rows)

    program = find() if program is None else shipped(program)
    variables = {name: shipped(value) for name, value in environment.items()}
    with Child(program, map(shipped, words), variables, Progress(False)) as child:
        child.feed(chunks())
        answers: list[list[str]] = []
        for row in itertools.islice(child.rows(), 1, None):
            answers.append(row[-len(ADDED) :])
            # What is answered was sent, so its batch is there.
            if len(answers) == waiting[0].num_rows:
                yield with_answers(waiting.popleft(), len(names), answers, prefix)
                answers = []


def shipped(word: str) -> str:
    """The word with the directory in place of `{files}`. Spark makes files readable for everybody; this one is closed."""
    if "{files}" not in word:
        return word
    word = word.replace("{files}", SparkFiles.getRootDirectory())
    file = word.partition("=")[2] if word.startswith("--") else word
    if os.path.isfile(file):
        with contextlib.suppress(OSError):  # It is another user's; if it is open, the program says so.
            os.chmod(file, os.stat(file).st_mode & 0o700)
    return word


def with_answers(batch: pyarrow.RecordBatch, sent: int, answers: list[list[str]], prefix: str) -> pyarrow.RecordBatch:
    """A batch with its answers in place of its last columns."""
    kept = batch.num_columns - sent
    # Spark may use the other type of text of Arrow; it is that of the texts that were sent.
    sent_types = [field.type for field in list(batch.schema)[kept:]]
    text = next((of for of in sent_types if not pyarrow.types.is_floating(of)), pyarrow.string())
    columns, schema = batch.columns[:kept], list(batch.schema)[:kept]
    for name, cells in zip(ADDED, zip(*answers)):
        of = pyarrow.float64() if name == "risk_score" else text
        columns.append(pyarrow.array([cell or None for cell in cells], pyarrow.string()).cast(of))
        schema.append(pyarrow.field(prefix + name, of))
    return pyarrow.RecordBatch.from_arrays(columns, schema=pyarrow.schema(schema, batch.schema.metadata))
