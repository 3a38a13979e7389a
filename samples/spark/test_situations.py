"""The situations of the test: what each of them has paid, against the most that it may pay. Started by `test.sh`."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import List

import test_postgres

HERE, WORK = Path(__file__).parent, Path(sys.argv[1])
JOB = HERE / "test_job.py"
# Users of the job that can be sent (40 of 10,000 cannot); calls in flight of one child.
USERS, IN_FLIGHT = 9_960, 16
LOCAL, CLUSTER = "local[2,4]", "local-cluster[2,1,1024]"


class Sandbox:
    """The stand-in for the service, and what it has billed."""

    def __enter__(self):
        command = [WORK / "program/rescore", "sandbox", "--listen", "127.0.0.1:0", "--latency", "20ms", "--accept-key", "k"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stderr.readline())[0]
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def billed(self) -> int:
        with urllib.request.urlopen(self.url + "/billed") as page:
            return json.load(page)["billed"]


@dataclass
class Place:
    """Where a situation happens. Its name is that of its files."""

    name: str
    sandbox: Sandbox
    # The options that name the ledger.
    ledger: List[str]
    # What has been started there.
    jobs: List["Job"] = field(default_factory=list)


class Job:
    """A Spark driver in a process of its own."""

    def __init__(self, place: Place, master: str, number: int = 1):
        self.place = place
        # Each situation has a service of its own, so that all of them can share a ledger.
        self.mark = f"test-{os.getpid()}-{place.name}"
        arguments = ["--base-url", place.sandbox.url, "--allow-http", "--service-id", self.mark]
        arguments += ["--api-key-file", "{files}/api-key", "--rate", "unlimited", "--concurrency", str(IN_FLIGHT), *place.ledger]
        self.log = WORK / f"{place.name}-{number}.log"
        output = WORK / f"{place.name}-{number}.parquet"
        command = [sys.executable, str(JOB), master, str(WORK), json.dumps(arguments), str(output)]
        self.process = subprocess.Popen(command, stdout=self.log.open("w"), stderr=subprocess.STDOUT)
        place.jobs.append(self)

    def children(self) -> list:
        """The processes of rescore that this job, or one of the same situation, has started."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            except OSError:
                continue
            if words[1:3] == [b"run", b"-"] and self.mark.encode() in words:
                found.append(int(entry.name))
        return found

    def wait(self) -> None:
        if self.process.wait() != 0:
            sys.exit(f"the job failed:\n{self.words()}")

    def words(self) -> str:
        """The last ones, without the places in Spark's own code."""
        lines = self.log.read_text().splitlines()
        return "\n".join(line for line in lines if not line.startswith("\tat "))[-4000:]


def wait_for(condition, what: str) -> None:
    # A busy machine takes minutes to start Spark.
    until = time.monotonic() + 600
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"waited too long for {what}")
        time.sleep(0.05)


def in_mid_run(job: Job) -> Job:
    """Waits until there is much to lose."""
    wait_for(lambda: job.process.poll() is not None or job.place.sandbox.billed() > 2_000, "2,000 calls")
    assert job.process.poll() is None, f"the job has ended:\n{job.words()}"
    return job


def alone(place: Place, master: str) -> int:
    Job(place, master).wait()
    return USERS


def killed_child(place: Place, master: str) -> int:
    """One child is killed in mid-run. Spark runs its task again."""
    job = in_mid_run(Job(place, master))
    os.kill(job.children()[0], signal.SIGKILL)
    job.wait()
    # A call is over when its answer has come; as many answers again may be on their way to the ledger's disk.
    return USERS + 2 * IN_FLIGHT


def cancelled(place: Place, master: str) -> int:
    """The driver ends in mid-run, as if it were killed, and the same job runs again. No child outlives the first one."""
    job = in_mid_run(Job(place, master))
    assert job.children(), "there are children"
    job.process.terminate()
    job.process.wait()
    wait_for(lambda: not job.children(), "the end of the children")
    Job(place, master, 2).wait()
    return USERS


def two_jobs(place: Place, master: str) -> int:
    """The same users in two jobs at the same time."""
    jobs = [Job(place, master, number) for number in (1, 2)]
    for job in jobs:
        job.wait()
    return USERS


SITUATIONS = {
    "local": ("one job, local[2,4]", alone, LOCAL),
    "cluster": ("one job, local-cluster[2,1,1024]", alone, CLUSTER),
    "killed": ("a child killed once", killed_child, CLUSTER),
    "cancelled": ("the job cancelled, and run again", cancelled, LOCAL),
    "two": ("two jobs at once", two_jobs, LOCAL),
}


def table(store: str, ledger, chosen: List[str]) -> bool:
    """Runs the situations with one kind of ledger, and says whether none has paid too much."""
    print(f"{'with a ledger ' + store:<40}{'users':>8}{'paid':>8}{'bound':>8}{'seconds':>9}", flush=True)
    is_fine = True
    for situation in chosen:
        words, run, master = SITUATIONS[situation]
        name = f"{store.split()[-1]}-{situation}"
        with Sandbox() as sandbox:
            start, place = time.monotonic(), Place(name, sandbox, ledger(name))
            try:
                bound = run(place, master)
            finally:
                for job in place.jobs:
                    job.process.terminate()
            paid = sandbox.billed()
        # Each user is paid for at least once, or the test has not done what it says.
        verdict = "  too much" if paid > bound else "  too little" if paid < USERS else ""
        is_fine &= not verdict
        print(f"{words:<40}{USERS:>8,}{paid:>8,}{bound:>8,}{time.monotonic() - start:>9.0f}{verdict}", flush=True)
    return is_fine


def main() -> None:
    (WORK / "api-key").write_text("k\n")
    chosen = sys.argv[3:] or list(SITUATIONS)
    is_fine = True
    if sys.argv[2] in ("all", "file"):
        is_fine &= table("in a file", lambda name: ["--ledger", str(WORK / f"{name}.ledger")], chosen)
    programs = test_postgres.programs()
    if sys.argv[2] in ("all", "postgresql") and programs:
        with test_postgres.Server(programs) as server:
            ledger = server.ledger(WORK / "program/rescore", WORK)
            is_fine &= table("on postgresql", lambda _: ledger, chosen)
    elif sys.argv[2] != "file":
        print("skipped all situations with a ledger on postgresql, which is not installed here (no `initdb`)")
    sys.exit(0 if is_fine else 1)


if __name__ == "__main__":
    main()
