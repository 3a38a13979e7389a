"""The situations of the test: what each of them has paid, against the most that it may pay. Started by `test.sh`."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

HERE, WORK = Path(__file__).parent, Path(sys.argv[1])
JOB = HERE / "test_job.py"
# Users of the job that can be sent (40 of 10,000 cannot); calls in flight of one child; tasks at a time.
USERS, IN_FLIGHT, TASKS = 9_960, 16, 2
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


class Job:
    """A Spark driver in a process of its own."""

    def __init__(self, sandbox: Sandbox, situation: str, master: str, number: int = 1):
        ledger = os.environ.get("LEDGER_URL") or str(WORK / f"{situation}.ledger")
        self.mark = f"test-{os.getpid()}-{situation}"
        arguments = ["--base-url", sandbox.url, "--allow-http", "--service-id", self.mark, "--api-key-file", "{files}/api-key"]
        arguments += ["--ledger", ledger, "--rate", "unlimited", "--concurrency", str(IN_FLIGHT)]
        self.log = WORK / f"{situation}-{number}.log"
        output = WORK / f"{situation}-{number}.parquet"
        shutil.rmtree(output, ignore_errors=True)
        command = [sys.executable, str(JOB), master, str(WORK), json.dumps(arguments), str(output)]
        self.process = subprocess.Popen(command, stdout=self.log.open("w"), stderr=subprocess.STDOUT)

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
            sys.exit(f"the job failed:\n{self.log.read_text()[-6000:]}")


def wait_for(condition, what: str) -> None:
    until = time.monotonic() + 180
    while not condition():
        if time.monotonic() > until:
            sys.exit(f"waited too long for {what}")
        time.sleep(0.05)


def alone(sandbox, name, master):
    Job(sandbox, name, master).wait()
    return USERS


def killed_child(sandbox, name, master):
    """One child is killed in mid-run. Spark runs its task again."""
    before = sandbox.billed()
    job = Job(sandbox, name, master)
    wait_for(lambda: sandbox.billed() > before + 2_000, "2,000 calls")
    os.kill(job.children()[0], signal.SIGKILL)
    job.wait()
    return USERS + IN_FLIGHT


def cancelled(sandbox, name, master):
    """The driver ends in mid-run, as if it were killed, and the same job runs again. No child outlives the first one."""
    before = sandbox.billed()
    job = Job(sandbox, name, master)
    wait_for(lambda: sandbox.billed() > before + 2_000, "2,000 calls")
    assert job.children(), "there are children"
    job.process.terminate()
    job.process.wait()
    wait_for(lambda: not job.children(), "the end of the children")
    Job(sandbox, name, master, 2).wait()
    return USERS + IN_FLIGHT * TASKS


def two_jobs(sandbox, name, master):
    """The same users in two jobs at the same time."""
    jobs = [Job(sandbox, name, master, number) for number in (1, 2)]
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


def main() -> None:
    (WORK / "api-key").write_text("k\n")
    too_much = False
    print(f"{'situation':<36}{'users':>8}{'paid':>8}{'bound':>8}{'seconds':>9}", flush=True)
    for name in sys.argv[2:] or SITUATIONS:
        words, run, master = SITUATIONS[name]
        with Sandbox() as sandbox:
            start = time.monotonic()
            bound = run(sandbox, name, master)
            paid = sandbox.billed()
        is_too_much = paid > bound
        too_much |= is_too_much
        verdict = "  too much" if is_too_much else ""
        print(f"{words:<36}{USERS:>8,}{paid:>8,}{bound:>8,}{time.monotonic() - start:>9.0f}{verdict}", flush=True)
    sys.exit(1 if too_much else 0)


if __name__ == "__main__":
    main()
