"""A PostgreSQL server of the test's own, with a ledger for its jobs. Used by `test_situations.py`."""

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import List, Optional

OWNER_PASSWORD, WORKER_PASSWORD = "the owner's", "the worker's"


def programs() -> Optional[Path]:
    """Where the programs of the newest installed version are, if there is one."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda at: float(at.parts[-3]))
    at = found[-1] if found else shutil.which("initdb")
    return Path(at).parent if at else None


class Server:
    """Listens on a socket in its own directory, and asks for passwords there."""

    def __init__(self, programs: Path):
        self.programs = programs
        # PostgreSQL refuses to run as root.
        self.user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None

    def __enter__(self):
        # Not in the test's directory, as a socket's path may have only 107 characters.
        self.directory = Path(tempfile.mkdtemp(prefix="rescore-pg-", dir="/tmp"))
        password = self.directory / "password"
        password.write_text(OWNER_PASSWORD)
        if self.user:
            for path in (self.directory, password):
                os.chown(path, self.user.pw_uid, self.user.pw_gid)
        self.run("initdb", "-U", "owner", "-A", "scram-sha-256", "--pwfile", str(password), "-E", "UTF8", "-D", self.data())
        with open(f"{self.data()}/postgresql.auto.conf", "a") as settings:
            settings.write(f"unix_socket_directories = '{self.directory}'\nlisten_addresses = ''\nmax_connections = 50\n")
        self.run("pg_ctl", "start", "-w", "-D", self.data(), "-l", f"{self.directory}/log")
        return self

    def __exit__(self, *_):
        self.run("pg_ctl", "stop", "-w", "-m", "immediate", "-D", self.data())
        shutil.rmtree(self.directory)

    def data(self) -> str:
        return f"{self.directory}/data"

    def run(self, name: str, *arguments: str) -> None:
        account = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []} if self.user else {}
        environment = {**os.environ, "PGPASSWORD": OWNER_PASSWORD}
        subprocess.run([self.programs / name, *arguments], cwd=self.directory, env=environment,
                       stdout=subprocess.DEVNULL, check=True, **account)

    def url(self, user: str) -> str:
        return f"postgresql://{user}@/scoring?host={self.directory}"

    def ledger(self, rescore: Path, work: Path) -> List[str]:
        """Makes the ledger, as docs/many-machines.md says, and returns what jobs say to use it."""
        self.sql("postgres", "CREATE DATABASE scoring")
        subprocess.run([rescore, "ledger", "init", self.url("owner")],
                       env={"PGPASSWORD": OWNER_PASSWORD}, stdout=subprocess.DEVNULL, check=True)
        password = WORKER_PASSWORD.replace("'", "''")
        self.sql("scoring", f"CREATE ROLE scorer LOGIN PASSWORD '{password}'; "
                 "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO scorer")
        # Jobs name it in PGPASSFILE.
        passwords = work / "pgpass"
        passwords.write_text(f"*:*:scoring:scorer:{WORKER_PASSWORD}\n")
        passwords.chmod(0o600)
        return ["--ledger", self.url("scorer")]

    def sql(self, database: str, statements: str) -> None:
        self.run("psql", "-q", "-X", "-h", str(self.directory), "-U", "owner", "-d", database, "-c", statements)
