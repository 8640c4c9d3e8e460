"""Two replicas of a service in PostgreSQL that carry out one campaign on the same racks.

Each has a directory with its own driver's memory, as on two machines. Their programs work
on the same hosts, and leave marks there, so that a new leader learns what the killed one
has begun.
"""

import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from forewarn.cli.client import Client
from forewarn.cli.watching import follow
from forewarn.store.postgres.cluster import PostgresCluster
from tests.support.agents import free_port
from tests.support.processes import Serving, eventually
from tests.support.watched import Mirror, stored
from tests.system.racks import Racks

NAMES = ("a", "b")

SPARE = ("spare_1", "spare_2")
"""Hosts that no campaign has."""

LEASE = "600ms"

# $1 is the program of the racks, beside which the marks are.
MARKED = r"""
program=$1 subject=$5 mark=$7
shift
[ "$1" = drain ] || subject=$2
write() {
    printf '%s %s\n' "$mark" "$1" > "$program.marks/$subject.new"
    mv "$program.marks/$subject.new" "$program.marks/$subject"
}
write begun
if /bin/sh "$program" "$@"; then write done; else write failed; exit 1; fi
"""

MARKS = r"""
while read -r line; do
    kind=${line#?\"}
    kind=${kind%%\"*}
    name=${line#*\": \"}
    name=${name%%\"*}
    if read -r mark state 2>/dev/null < "$1.marks/$name"; then
        printf '{"%s": "%s", "mark": "%s", "state": "%s"}\n' "$kind" "$name" "$mark" "$state"
    else
        printf '{"%s": "%s", "mark": null}\n' "$kind" "$name"
    fi
done
"""


class _OverError(Exception):
    """The viewer has left."""


class Watch:
    """A viewer of the stream of changes, who knows the URLs of both replicas."""

    def __init__(self, urls: str) -> None:
        self.states: dict[str, str] = {}
        """The last state of each operation that was listed since the last reset."""
        self.seen: set[str] = set()
        """All operations that were ever listed."""
        self.resets = 0
        self.is_complete = False
        """Whether all current objects have come since the last reset."""
        self._client = Client(urls)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)

    def begin(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop reading when the stream breaks."""
        self._is_over.set()

    def _pause(self, _seconds: float) -> None:
        if self._is_over.wait(0.1):
            raise _OverError

    def _read(self) -> None:
        with suppress(_OverError), closing(self._client):
            self._take_all()

    def _take_all(self) -> None:
        messages = follow(
            lambda: self._client.watch({"topics": "operations"}), pause=self._pause
        )
        for name, data in messages:
            if name == "operations":
                self.states[data["operation"]] = data["state"]
                self.seen.add(data["operation"])
            elif name == "reset":
                self.states, self.is_complete = {}, False
                self.resets += 1
            elif name == "ready":
                self.is_complete = True


class RackPair(Racks):
    """The racks, with two replicas; `services` ends with the one that leads."""

    def __init__(self, url: str, directory: Path, hosts: int) -> None:
        """Start nothing."""
        self.url = url
        super().__init__(directory, hosts)
        self._fleet += "".join(
            f'[[host]]\nname = "{host}"\npool = "spare"\n'
            f'[[vm]]\nname = "vm_{host}"\nhost = "{host}"\ntenant = "shop"\n'
            for host in SPARE
        )
        program = self.room / "program"
        Path(f"{program}.marks").mkdir()
        (self.room / "marked").write_text(MARKED)
        (self.room / "read").write_text(MARKS)
        self.ports = {name: free_port() for name in NAMES}
        self.running: dict[str, Serving] = {}

    def _settings(self, timeouts: Any, verify_within: str) -> str:
        program = self.room / "program"
        text = super()._settings(timeouts, verify_within)
        marked = f'"/bin/sh", "{self.room / "marked"}", "{program}"'
        text = text.replace(f'"/bin/sh", "{program}"', marked)
        text = text.replace(
            '"{version}", "{version}"]', '"{version}", "{version}", "{mark}"]'
        )
        text = text.replace('"{to_host}"]', '"{to_host}", "{mark}"]')
        read = f'marks = ["/bin/sh", "{self.room / "read"}", "{program}"]\n'
        return text.replace("[policy]", f"{read}[policy]", 1)

    def file(self, *, stages: str = "") -> str:
        """Return the file of a campaign that flashes the hosts of the racks."""
        hosts = ", ".join(f'"{host}"' for host in self.hosts)
        every = super().file(stages=stages)
        return every.replace("{ all = true }", f"{{ host = [{hosts}] }}")

    @property
    def urls(self) -> str:
        """Return the operator APIs of both replicas in the form of `FOREWARN_URL`."""
        return " ".join(f"http://127.0.0.1:{port}" for port in self.ports.values())

    def start_replica(self, name: str) -> Serving:
        """Start a replica, and wait until it is ready."""
        place = self.directory / name
        place.mkdir(exist_ok=True)
        (place / "forewarn.toml").write_text(
            (self.directory / "forewarn.toml").read_text()
        )
        self.running[name] = Serving(
            place,
            self._fleet,
            store_url=self.url,
            cluster_name=name,
            cluster_lease=LEASE,
            metadata_listen="127.0.0.1:0",
            admin_listen=f"127.0.0.1:{self.ports[name]}",
        ).wait_ready()
        self.services.append(self.running[name])
        return self.running[name]

    def wait_leader(self, name: str) -> Serving:
        """Return the replica when it leads; the racks are steered there then."""
        service = self.running[name]
        eventually(service.role, "leads".__eq__, what=service.log())
        self.services.append(service)
        return service

    def stored(self) -> Mirror:
        """Return the content of the database."""
        mirror, cluster = Mirror(), PostgresCluster(self.url)
        mirror.tables |= cluster.follow(None, lambda reader, _moment: stored(reader))
        cluster.close()
        return mirror
