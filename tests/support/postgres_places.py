"""PostgreSQL servers that a test stops, pauses, promotes, fills and cuts off.

Each has data and a socket in a directory of its own; `postgres_server` has what starts them.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

import psycopg

from tests.support import postgres_server
from tests.support.unpacked import environment, find


class Server:
    """One server."""

    def __init__(
        self, directory: Path, log: Path | None = None, /, **settings: str
    ) -> None:
        """Start nothing; `log` is where its messages go, if not to its directory."""
        self.directory, self._settings = directory, settings
        self.log = log or directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self, *trusted: str) -> None:
        """Make its data. It trusts these networks, and its socket."""
        postgres_server.make(self.directory)
        with (self.directory / "data" / "pg_hba.conf").open("a") as file:
            file.writelines(f"host all all {place} trust\n" for place in trusted)

    def follow(self, primary: "Server") -> None:
        """Make its data as those of a standby, which follows once it is started."""
        self.directory.mkdir(mode=0o755)
        postgres_server.give(self.directory)
        subprocess.run(
            [
                *(
                    find("pg_basebackup"),
                    "-h",
                    str(primary.directory),
                    "-U",
                    "postgres",
                ),
                *("-D", str(self.directory / "data"), "--checkpoint=fast", "--no-sync"),
            ],
            cwd=self.directory,
            env=environment("pg_basebackup"),
            check=True,
            **postgres_server.as_nobody(),
        )
        signal_file = self.directory / "data" / "standby.signal"
        signal_file.touch()
        postgres_server.give(signal_file)
        self._settings["primary_conninfo"] = (
            f"host={primary.directory} user=postgres application_name=standby"
        )

    def start(self) -> None:
        """Start it; return when it listens."""
        self.log.unlink(missing_ok=True)
        self._process = postgres_server.start(
            self.directory, self.log, **self._settings
        )

    def stop(self) -> None:
        """End it at once, as a crash of the machine does."""
        if self._process is not None:
            self.signal(signal.SIGCONT)
            postgres_server.stop(self._process)
            self._process = None

    def signal(self, number: int) -> None:
        """Send a signal to all of its processes."""
        assert self._process is not None, "it runs"
        for pid in _tree(self._process.pid):
            os.kill(pid, number)

    @property
    def pid(self) -> int:
        """Return the ID of its first process."""
        assert self._process is not None, "it runs"
        return self._process.pid

    def run(self, sql: str) -> list[tuple[object, ...]]:
        """Run a statement as the superuser."""
        url = postgres_server.url_of(self.directory)
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []


def url_of(servers: Sequence[Server], database: str = "postgres", **more: str) -> str:
    """Return the URL of a database that is at one of the servers."""
    hosts = ",".join(str(server.directory) for server in servers)
    options = "".join(f"&{name}={text}" for name, text in more.items())
    return f"postgresql:///{database}?host={hosts}&user=postgres{options}"


def _tree(pid: int) -> list[int]:
    """Return a process with all of its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")
    return [pid, *map(int, children.split())]
