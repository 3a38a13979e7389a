"""Score the users of Arrow tables with `rescore`, for engines that have them; `rescore_spark.py` uses it for Spark.

    from rescore_arrow import Options, scored_table

    options = Options(fields={"name": "full_name", "email": "email", "ip": "ip", "user_agent": "agent"},
                      program="/usr/local/bin/rescore",
                      arguments=["--base-url", "https://api.example.com", ...])
    dataset.map_batches(lambda table: scored_table(table, options), batch_format="pyarrow", batch_size=10_000)  # Ray

Each call starts a process, so give it thousands of rows at a time.
"""

import collections
import contextlib
import itertools
import json
import os
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Sequence

import pyarrow as pa

FIELDS = ("name", "email", "phone", "ip", "user_agent")

# What the columns that are sent are called on their way, so that none has the name of another one.
SENT = "rescore_sends_"

ADDED = ("transaction_id", "risk_score", "decision", "reason")

# All failures of rows are data: they are in the column `reason`, and must not fail the task.
ALWAYS = {"--format": "jsonl", "--reason-column": "reason", "--accept-failures": "100%"}

# The first exit code means that all is well, the second that some rows have no decision, as their level is in no list.
FINISHED = (0, 1)

# How much of what the child says is repeated in the exception.
LAST_LINES = 20


@dataclass(frozen=True)
class Options:
    """How `rescore` is started. `{files}` stands for the directory of what `--files` and `--archives` have shipped."""

    # Which column is which field of the request, and in Spark which expression. It is sent as text.
    fields: Mapping[str, Any]
    # Further arguments of `rescore run`. Spark shows them to everybody who sees its plans, so secrets belong into files.
    arguments: Sequence[str] = ()
    program: str = "{files}/rescore/rescore"
    # All variables that the program gets. Nothing of the executor's environment is passed on.
    environment: Mapping[str, str] = field(default_factory=dict)
    # What is put before the names of the four columns.
    prefix: str = ""

    def added(self, columns: Iterable[str]) -> List[str]:
        """The names of the four columns, which are none of these."""
        unknown = set(self.fields) - set(FIELDS)
        if unknown:
            raise ValueError(f"fields: {sorted(unknown)}; there are only {', '.join(FIELDS)}")
        added = [self.prefix + name for name in ADDED]
        clash = {name.lower() for name in added} & {name.lower() for name in columns}
        if clash:
            raise ValueError(f"the columns {sorted(clash)} are there already: give a prefix, such as `rescore_`")
        return added

    def command(self, files: str) -> List[str]:
        """The command line: what is given wins over what is always given."""
        given = {argument.split("=")[0] for argument in self.arguments}
        always = [word for option, value in ALWAYS.items() if option not in given for word in (option, value)]
        for word in self.arguments:
            if "{files}" in word:
                keep_private(word.split("=")[-1].replace("{files}", files))
        command = [self.program, "run", "-", "--quiet", *always, *self.arguments]
        return [word.replace("{files}", files) for word in command]

    def variables(self, files: str) -> Dict[str, str]:
        """The program's variables, such as PGPASSFILE."""
        for value in self.environment.values():
            if "{files}" in value:
                keep_private(value.replace("{files}", files))
        return {name: value.replace("{files}", files) for name, value in self.environment.items()}


def scored_table(table: pa.Table, options: Options, files: str = ".") -> pa.Table:
    """The table with the columns `transaction_id`, `risk_score`, `decision` and `reason`, in the same order."""
    options.added(table.column_names)
    for name, column in options.fields.items():
        table = table.append_column(SENT + name, table[column].cast(pa.string()))
    none = pa.RecordBatch.from_pylist([], schema=table.schema)
    schema = with_answers(none, len(options.fields), [], options.prefix).schema
    return pa.Table.from_batches(scored_batches(table.to_batches(), options, files), schema=schema)


def scored_batches(batches: Iterable[pa.RecordBatch], options: Options, files: str) -> Iterator[pa.RecordBatch]:
    """The batches with their answers in place of their last columns, the fields of the request in the options' order.

    One child scores all of them. If there are no rows, there is none.
    """
    batches = (batch for batch in batches if batch.num_rows > 0)
    first = next(batches, None)
    if first is None:
        return
    names = list(options.fields)
    child = Child(options.command(files), options.variables(files))
    try:
        child.feed(names, itertools.chain([first], batches))
        for batch in child.answered():
            yield with_answers(batch, len(names), child.answers(batch.num_rows), options.prefix)
        child.finish()
    finally:
        child.stop()


def keep_private(file: str) -> None:
    """Lets only its owner read a file that Spark has shipped, and given a mode of its own: a password must not be open."""
    if os.path.isfile(file):
        with contextlib.suppress(OSError):  # It is another user's; if it is open, the child says so.
            os.chmod(file, os.stat(file).st_mode & 0o700)


class Child:
    """A `rescore` that gets users as JSON lines and gives them back with their answers, in the same order."""

    def __init__(self, command: List[str], environment: Dict[str, str]):
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        self.last_words = collections.deque(maxlen=LAST_LINES)
        self.listener = self.start(self.listen)
        # Batches that the child has, perhaps in part. It reads only so far ahead, so they are few.
        self.sent = collections.deque()
        self.changed = threading.Condition()
        self.ended, self.error = False, None

    @staticmethod
    def start(work, *arguments) -> threading.Thread:
        thread = threading.Thread(target=work, args=arguments, daemon=True)
        thread.start()
        return thread

    def listen(self) -> None:
        """Keeps the child's last words, and passes all on to the executor's log."""
        for line in self.process.stderr:
            text = line.decode(errors="replace").rstrip()
            self.last_words.append(text)
            print(text, file=sys.stderr)

    def feed(self, names: List[str], batches: Iterable[pa.RecordBatch]) -> None:
        """Sends all users, while their answers are read: neither side may wait for the other."""
        self.start(self.send, names, batches)

    def send(self, names: List[str], batches: Iterable[pa.RecordBatch]) -> None:
        try:
            with self.process.stdin as stdin:
                for batch in batches:
                    self.note(batch)
                    stdin.write(lines(names, batch))
                    stdin.flush()
        except BrokenPipeError:
            pass  # The child has ended; its exit code and last words say why.
        except BaseException as error:  # Spark's own, such as that of a failed task upstream.
            self.error = error
        finally:
            self.note(None)

    def note(self, batch) -> None:
        """The child gets this batch now; after the last one comes `None`."""
        with self.changed:
            if batch is None:
                self.ended = True
            else:
                self.sent.append(batch)
            self.changed.notify()

    def answered(self) -> Iterator[pa.RecordBatch]:
        """The batches in the order in which their answers come."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.sent or self.ended)
                if not self.sent:
                    return
                batch = self.sent.popleft()
            yield batch

    def answers(self, rows: int) -> List[dict]:
        """The answers to the next rows."""
        found = [json.loads(line) for line in itertools.islice(self.process.stdout, rows)]
        if len(found) < rows:
            self.finish()
            raise RuntimeError("rescore has ended before its last row")
        return found

    def finish(self) -> None:
        """Waits for the end, and fails with the child's last words unless it has finished."""
        if self.error is not None:
            raise self.error
        code = self.process.wait()
        self.listener.join()
        if code not in FINISHED:
            raise RuntimeError("\n".join([f"rescore ended with exit code {code}", *self.last_words]))

    def stop(self) -> None:
        """Ends the child, if it has not ended: calls in flight finish, and their answers go to the ledger."""
        self.process.stdout.close()
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait()


def lines(names: List[str], batch: pa.RecordBatch) -> bytes:
    """The requests of a batch, whose last columns they are, as lines of JSON."""
    columns = [batch.column(index).to_pylist() for index in range(batch.num_columns - len(names), batch.num_columns)]
    # A field without a value is sent as null: if none had it, the whole file would seem to lack it.
    return "".join(json.dumps(dict(zip(names, row))) + "\n" for row in zip(*columns)).encode()


def with_answers(batch: pa.RecordBatch, fields: int, answers: List[dict], prefix: str) -> pa.RecordBatch:
    """A batch with its answers in place of its last columns."""
    # Spark may use the other type of text of Arrow; it is that of the fields.
    text = batch.schema.field(batch.num_columns - 1).type
    types = {"transaction_id": text, "risk_score": pa.float64(), "decision": text, "reason": text}
    kept = batch.num_columns - fields
    columns = batch.columns[:kept] + [pa.array([answer[name] for answer in answers], at) for name, at in types.items()]
    schema = list(batch.schema)[:kept] + [pa.field(prefix + name, at) for name, at in types.items()]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(schema, batch.schema.metadata))
