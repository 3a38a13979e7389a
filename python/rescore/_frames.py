"""Frames of pandas, Polars and Arrow: what of them is sent as CSV, and how the verdicts come back beside their rows.

Only a library that the frame is from is imported. A frame is never rebuilt from text, so its own columns stay as they are.
"""

from __future__ import annotations

import csv
import importlib
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ._child import Child
from ._program import arguments, find, plain, without_exponent
from ._progress import Progress

# The first column that is sent: where a row belongs, also if only a part of the rows comes back.
ROW = "rescore_row"

# Rows that are made text at once: many enough for the libraries, and few enough for the first calls to start soon.
CHUNK = 4096

# What is sent is always the same CSV, and comes back through a pipe, whatever a settings file says.
FORM = {"format": "csv", "delimiter": ",", "quotes": "on", "encoding": "utf-8", "no_header": False, "output": "-"}

# What the frame that comes back has, unless something else is asked for.
ADDED = {"prefix": "", "reason_column": "reason"}

# What of a run's summary stays with the frame: pandas copies it with each column that is taken.
COUNTS = ("rows", "known", "duplicates", "decisions", "failed", "calls", "cost")

Column = list[Any]


# Frames of all kinds are the program's input in the same way. `names` are the columns that are sent, whose values can be text.
# `text` is the rows of a chunk as CSV, each after its number. `with_columns` is the frame with these in addition, or in place
# of those with the same names; all but `scores` are text.


class Pandas:
    def __init__(self, frame: Any):
        self.pandas = importlib.import_module("pandas")
        self.frame, self.rows = frame, len(frame)
        places = [at for at, name in enumerate(frame.columns) if name != ROW and self.is_text(frame.iloc[:, at])]
        self.sent = frame.iloc[:, places]
        self.names = [str(name) for name in self.sent.columns]

    def is_text(self, column: Any) -> bool:
        return self.has_only_text(column) or any(self.cell(value) is not None for value in column.dropna().to_numpy()) or column.isna().all()

    def has_only_text(self, column: Any) -> bool:
        return getattr(column.dtype, "kind", "O") in "biumM" or isinstance(column.dtype, self.pandas.StringDtype)

    def cell(self, value: Any) -> str | None:
        """A value as text, if it is one that is not missing, and neither bytes nor a list or the like."""
        types = self.pandas.api.types
        return None if not types.is_scalar(value) or isinstance(value, bytes) or self.pandas.isna(value) else plain(value)

    def cells(self, column: Any) -> Any:
        if self.has_only_text(column):
            return column
        return self.pandas.Series([self.cell(value) for value in column.to_numpy()], column.index, dtype=object)

    def text(self, start: int) -> bytes:
        part = self.sent.iloc[start : start + CHUNK]
        part = part.set_axis(range(start, start + len(part)), axis=0)
        part = self.pandas.DataFrame({at: self.cells(part.iloc[:, at]) for at in range(part.shape[1])}, part.index)
        # With CR in the line ends, a CR in a cell is quoted by all versions. Missing values of all kinds become empty. A text that
        # is none of Unicode stays what it is, and the program fails its row.
        return part.to_csv(header=False, lineterminator="\r\n", errors="surrogatepass").encode("utf-8", "surrogatepass")  # type: ignore[no-any-return]

    def with_columns(self, columns: Mapping[str, Column], scores: str) -> Any:
        text = "str" if int(self.pandas.__version__.split(".")[0]) >= 3 else object
        of = {scores: float}
        return self.frame.assign(**{name: self.pandas.array(values, of.get(name, text)) for name, values in columns.items()})


class Polars:
    def __init__(self, frame: Any):
        self.polars = importlib.import_module("polars")
        self.frame, self.rows = frame, len(frame)
        schema = frame.schema.items()
        self.names = [name for name, of in schema if name != ROW and of != self.polars.Binary and self.is_text(frame.select(name))]
        self.sent = frame.select(self.names)

    def is_text(self, column: Any) -> bool:
        try:
            column.head(1).write_csv()
        except self.polars.exceptions.PolarsError:
            return False
        return True

    def text(self, start: int) -> bytes:
        part = self.sent.slice(start, CHUNK).with_row_index(ROW, offset=start)
        return part.write_csv(include_header=False, quote_style="non_numeric", float_scientific=False).encode()  # type: ignore[no-any-return]

    def with_columns(self, columns: Mapping[str, Column], scores: str) -> Any:
        of, text = {scores: self.polars.Float64}, self.polars.String
        return self.frame.with_columns([self.polars.Series(name, values, of.get(name, text)) for name, values in columns.items()])


class Arrow:
    def __init__(self, table: Any):
        self.arrow = importlib.import_module("pyarrow")
        self.table, self.rows = table, table.num_rows
        # Arrow makes no text of runs.
        decode, is_runs = importlib.import_module("pyarrow.compute").run_end_decode, self.arrow.types.is_run_end_encoded
        plain = self.arrow.table([decode(one) if is_runs(one.type) else one for one in table.columns], table.column_names)
        self.sent = plain.select([at for at, field in enumerate(plain.schema) if field.name != ROW and self.is_text(field.type)])
        self.names = self.sent.column_names

    def is_text(self, of: Any) -> bool:
        try:
            self.arrow.array([], of).cast(self.arrow.string())
        except self.arrow.ArrowException:
            return False
        return not self.arrow.types.is_nested(of) and "binary" not in str(getattr(of, "storage_type", of))

    def text(self, start: int) -> bytes:
        part = self.sent.slice(start, CHUNK)
        return arrow_text(part.columns, start, part.num_rows)

    def with_columns(self, columns: Mapping[str, Column], scores: str) -> Any:
        table, of, text = self.table, {scores: self.arrow.float64()}, self.arrow.string()
        for name, values in columns.items():
            made = self.arrow.array(values, of.get(name, text))
            there = table.schema.get_field_index(name)
            table = table.append_column(name, made) if there < 0 else table.set_column(there, name, made)
        return table


def arrow_text(columns: list[Any], start: int, rows: int) -> bytes:
    """Columns that can be text as CSV, each row after its number."""
    arrow, to_csv = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.csv")

    def text(column: Any) -> Any:
        of, cells = column.type, column.cast(arrow.string())
        if not arrow.types.is_floating(of.value_type if arrow.types.is_dictionary(of) else of):
            return cells
        return arrow.array([cell and without_exponent(cell) for cell in cells.to_pylist()], arrow.string())

    numbered = [arrow.array(range(start, start + rows)), *map(text, columns)]
    table, made = arrow.table(numbered, [str(at) for at in range(len(numbered))]), io.BytesIO()
    to_csv.write_csv(table, made, to_csv.WriteOptions(include_header=False))
    return made.getvalue()


Source = Pandas | Polars | Arrow
SOURCES: dict[tuple[str, str], type[Source]] = {("pandas", "DataFrame"): Pandas, ("polars", "DataFrame"): Polars, ("pyarrow", "Table"): Arrow}


def source(frame: Any) -> Source:
    """The frame as input, by the library that its type, or one above it, is from."""
    for kind in type(frame).__mro__:
        of = SOURCES.get((kind.__module__.partition(".")[0], kind.__name__))
        if of is not None:
            return of(frame)
    raise TypeError(f"a path, or a DataFrame of pandas or Polars, or a Table of Arrow is needed, not {type(frame)}")


def header(names: Sequence[str]) -> bytes:
    """The first line. Its mark says that all is UTF-8, so that a text that is not fails its row, and not the frame."""
    line = io.StringIO()
    csv.writer(line).writerow([ROW, *names])
    return line.getvalue().encode("utf-8-sig", "surrogatepass")


def chunks(of: Source) -> Iterator[bytes]:
    yield header(of.names)
    for start in range(0, of.rows, CHUNK):
        yield of.text(start)


def score_frame(
    frame: Any, options: Mapping[str, Any], environment: Mapping[str, str], progress: bool | None, summary: dict[str, Any]
) -> Any:
    """The frame with the columns that the program adds. Rows that a part (`limit`, `sample`) leaves out have none."""
    sent = source(frame)
    options = {**ADDED, **options, **FORM}
    words = list(arguments(options))
    further = [word.split("=")[1] for word in words if word.startswith("--column=")]
    ours = [f"{options['prefix']}{name}" for name in ["transaction_id", "risk_score", "decision", options["reason_column"], *further]]
    with Child(find(), words, environment, Progress(progress, sent.rows), summary=summary) as child:
        child.feed(chunks(sent))
        rows = child.rows()
        there = next(rows, [])
        # Those of an earlier run are replaced in their places, all others come last.
        places = [at for at, name in enumerate(there) if at > len(sent.names) or name in ours]
        columns: list[Column] = [[None] * sent.rows for _ in places]
        for row in rows:
            number = int(row[0])
            for column, at in zip(columns, places):
                column[number] = row[at] or None
    scored = {there[at]: column for at, column in zip(places, columns)}
    scores = ours[1]
    scored[scores] = [score and float(score) for score in scored[scores]]
    whole = sent.with_columns(scored, scores)
    if isinstance(sent, Pandas):
        whole.attrs["rescore"] = {name: summary[name] for name in COUNTS if name in summary}
    return whole
