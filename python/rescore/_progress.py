"""Shows how a run is, from the program's JSON lines: with tqdm if it is installed, or else as one line of a terminal."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from ._child import FINISHED, in_words


class Progress:
    """Called with each line. Without a wish, it shows the run in terminals and notebooks; warnings are shown everywhere.

    The program cannot know how many `rows` a pipe has.
    """

    def __init__(self, wish: bool | None, rows: int | None = None):
        self.is_terminal = sys.stderr.isatty()
        self.is_shown = wish if wish is not None else self.is_terminal or "ipykernel" in sys.modules
        self.bar: Any = None
        if self.is_shown:
            try:
                self.bar = importlib.import_module("tqdm.auto").tqdm(desc="rescore", unit=" rows", total=rows)
            except ImportError:
                pass

    def __call__(self, said: dict[str, Any]) -> None:
        if said["type"] == "warning":
            self.say(f"warning: {in_words(said)}")
        if not self.is_shown or "rows" not in said:
            return
        if said["type"] == "stopping":
            self.say(f"stopping: waiting for {said['calls']['in_flight']:,} calls in flight")
        is_end = said["type"] == "summary"
        done, words = said["rows"]["resolved"], counts(said)
        if self.bar is not None:
            percent = 100 if said.get("exit_code") in FINISHED else said.get("now", {}).get("percent")
            self.bar.total = round(done * 100 / percent) if percent else self.bar.total
            self.bar.set_postfix_str(words, refresh=False)
            self.bar.update(done - self.bar.n)
            if is_end:
                self.bar.close()
        elif self.is_terminal or is_end:
            line = f"rescore: {done:,} rows in {said['elapsed_seconds']:,.0f} s: {words}"
            print(f"\r{line:<100}" if self.is_terminal else line, end="\n" if is_end else "", file=sys.stderr, flush=True)

    def say(self, words: str) -> None:
        (print if self.bar is None else self.bar.write)(f"rescore: {words}", file=sys.stderr)


def counts(said: dict[str, Any]) -> str:
    """What a progress line or a summary counts, as far as there is any."""
    counted = {**said["decisions"], "failed": said["failed"]["rows"], "calls": said["calls"]["sent"]}
    words = [f"{name} {number:,}" for name, number in counted.items() if number]
    if said["cost"]:
        words.append(f"spent {said['cost']['spent']:,} {said['cost']['currency'] or ''}".rstrip())
    return ", ".join(words)
