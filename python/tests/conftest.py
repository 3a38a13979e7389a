"""What the tests share: a stand-in for the service, which says what it has billed, in a folder of its own."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import rescore


class Service:
    """`rescore sandbox`, which accepts one key."""

    def __init__(self, *options: str):
        command = [rescore.find(), "sandbox", "--listen", "127.0.0.1:0", "--accept-key", "k", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        address = re.search(r"http://\S+", self.process.stderr.readline())
        assert address is not None
        self.url = address[0]
        self.options: dict[str, Any] = {"base_url": self.url, "service_id": "tests", "api_key": "k"}

    def billed(self) -> int:
        with urllib.request.urlopen(self.url + "/billed") as page:
            return int(json.load(page)["billed"])


Start = Callable[..., Service]


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts services. Ledgers and records of the test are in its own folder, and no settings of this machine count."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("RESCORE_LEDGER", str(tmp_path / "rescore.ledger"))
    started: list[Service] = []

    def start(*options: str) -> Service:
        started.append(Service(*options))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.wait()
