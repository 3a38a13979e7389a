"""The program as a child process: what goes in, what comes out, and how it ends. It knows no frames."""

from __future__ import annotations

import csv
import io
import json
import os
import select
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import IO, Any

# All is well; some rows have no verdict, and their `reason` says why.
FINISHED = (0, 1)

# A run, which says in JSON how far it is.
RUN = ("run", "--progress=json")

# How much of what the child says is repeated in an exception.
LAST_LINES = 20

# The longest row that the program reads. The csv module takes cells of 128 KiB only.
LONGEST_CELL = 16 << 20


# What is done with each of the program's JSON lines that is not an error.
Show = Callable[[dict[str, Any]], None]


class Error(RuntimeError):
    """A run that did not finish, in the program's own words. Answers that were paid for are in the ledger."""

    def __init__(self, exit_code: int, message: str):
        super().__init__(exit_code, message)
        self.exit_code = exit_code
        self.message = message

    def __str__(self) -> str:
        return f"{self.message} (exit code {self.exit_code})"


class Answers(io.RawIOBase):
    """The pipe with the rows that come back. Ctrl-C interrupts `poll`, and not `read` if Polars is loaded."""

    def __init__(self, pipe: IO[bytes]):
        self.pipe = pipe
        self.ready = select.poll()
        self.ready.register(pipe, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self.ready.poll()
        return os.readv(self.pipe.fileno(), [buffer])


class Child:
    """A command, by default `rescore run`. Leaving its context waits for its end, or stops it if an exception is on its way.

    What a run sums up at its end is put into `summary`, also if it does not finish.
    """

    def __init__(
        self,
        program: str,
        words: Iterable[str],
        environment: Mapping[str, str],
        show: Show,
        command: Sequence[str] = RUN,
        summary: dict[str, Any] | None = None,
    ):
        self.show = show
        self.summary = {} if summary is None else summary
        self.errors: list[str] = []
        self.last_lines: deque[str] = deque(maxlen=LAST_LINES)
        self.broken: BaseException | None = None
        # In a session of its own, Ctrl-C reaches it only from here.
        self.process = subprocess.Popen(
            [program, *command, *words], env=environment, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.stdin, self.stdout, self.stderr = self.process.stdin, Answers(self.process.stdout), self.process.stderr
        self.listener = threading.Thread(target=self.listen, daemon=True)
        self.listener.start()

    def listen(self) -> None:
        """Shows what the child says, and keeps what an exception would repeat."""
        for line in io.TextIOWrapper(self.stderr, errors="replace"):
            try:
                said = json.loads(line)
                if said["type"] == "error":
                    self.errors.append(in_words(said))
                    continue
                if said["type"] == "summary":
                    self.summary.update(said)
                self.show(said)
            except (ValueError, KeyError, TypeError):
                self.last_lines.append(line.rstrip())

    def feed(self, chunks: Iterable[bytes]) -> None:
        """Sends all rows while answers are read: neither side may wait for the other."""
        threading.Thread(target=self.send, args=(chunks,), daemon=True).start()

    def send(self, chunks: Iterable[bytes]) -> None:
        try:
            with self.stdin:
                for chunk in chunks:
                    self.stdin.write(chunk)
                    self.stdin.flush()
        except BrokenPipeError:
            pass  # The child has ended; its exit code and its words say why.
        except BaseException as error:  # The frame's own; it is raised where the answers are read.
            self.broken = error
            self.process.send_signal(signal.SIGINT)

    def rows(self) -> Iterator[list[str]]:
        """The rows that come back, the header first."""
        csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
        return csv.reader(io.TextIOWrapper(io.BufferedReader(self.stdout, 1 << 16), encoding="utf-8-sig", errors="replace", newline=""))

    def discard(self) -> None:
        """Reads to the end, so that the child is not held back by what nobody reads."""
        while self.stdout.read(1 << 16):
            pass

    def __enter__(self) -> Child:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self.stop()
        code = self.process.wait()
        self.listener.join()
        if self.broken is not None:
            raise self.broken
        if kind is None and code not in FINISHED:
            raise Error(code, "\n".join(self.errors or self.last_lines) or "rescore was killed")

    def stop(self) -> None:
        """Lets calls in flight finish, as their answers are paid for. The child knows which further Ctrl-C asks for more."""
        while True:
            try:
                self.process.send_signal(signal.SIGINT)
                self.discard()
                self.process.wait()
                return
            except KeyboardInterrupt:
                pass


def in_words(said: Mapping[str, Any]) -> str:
    """A message of the program, as it shows it to people."""
    hint = [f"hint: {said['hint']}"] if said["hint"] else []
    return "\n".join([": ".join([said["message"], *said["causes"]]), *said["details"], *hint])
