"""Two replicas of `forewarn serve` on one PostgreSQL, their clients, and the shocks to
them.

Each replica has a directory and a driver of its own, as on two machines. The programs of the
drivers write one journal, and marks, as hypervisors do. They are not killed.
"""

import json
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from forewarn.protocol.operations import OperationState, Request
from forewarn.store.port import Reader
from forewarn.store.postgres.cluster import PostgresCluster
from tests.support import lease_witness, replica_reader
from tests.support.agents import free_port
from tests.support.lease_witness import Act, Witness
from tests.support.processes import Serving, http
from tests.support.watched import Mirror, stored
from tests.system.aftermath import Work, end_all, journal, judge_content
from tests.system.crowd import ANSWERS, VMS, Crowd, address_of, fleet

LEASE_SECONDS = 0.6
"""Short, so that a takeover is soon over; the usual one is 2.4 s."""

PROGRAM = r"""
read -r stat < "/proc/$$/stat"
printf 'begun %s %s %s\n' "$2" "$3" "$4" >> "$0.log"
read -r up _ < /proc/uptime
printf '%s %s %s\n' "$3" "$1" "$up" >> "$0.times"
started() { shift 19; printf '%s %s %s\n' "$replica" "$1" "$work" >> "$0.acts"; }
replica=$1 work=$3.$4
# shellcheck disable=SC2086 # they are words
started ${stat##*) }
mark() {
  printf '{"vm": "%s", "mark": "%s", "state": "%s"}\n' "$1" "$2" "$3" > "$0.marks/$1.$$"
  mv "$0.marks/$1.$$" "$0.marks/$1"
}
mark "$2" "$5" begun
sleep 0.1
printf 'done %s %s %s\n' "$2" "$3" "$4" >> "$0.log"
mark "$2" "$5" done
"""

MARKS = r"""
while read -r line; do
  vm=${line#*\"vm\": \"}
  vm=${vm%%\"*}
  cat "$1.marks/$vm" 2>/dev/null || printf '{"vm": "%s", "mark": null}\n' "$vm"
done
"""

PROBE = r"""grep -q "^done $2 $3 $4\$" "$1.log" || exit 4"""

ACTIONS = ("freeze", "live_migrate", "reboot", "redeploy", "reimage", "delete")

NAMES = ("a", "b")

LATE_END = "the control thread does not end, so the service does"
"""The log of a replica that gets too little of the machine to end in order."""

CLOCK_SLACK_SECONDS = 0.05
"""The resolution of /proc/uptime, and the time until it is read."""


class ReplicaCrowd(Crowd):
    """The clients of one replica: they try again."""

    allowed = ANSWERS | {429, 503}
    may_wait = frozenset({429, 503})
    breath = 0.03

    def _ask(self, work: Callable[[Random], None], rng: Random) -> None:
        while self._breathe(0.05):
            try:
                work(rng)
            except (OSError, HTTPException):
                continue
            except Exception as error:  # noqa: BLE001 - told by the test, not the thread
                self.strange.append(f"{type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The addresses of a replica, which stay the same at each start."""

    name: str
    directory: Path
    metadata: str
    admin: str


class Pair:
    """Two replicas, their clients, and a reader that is another program."""

    def __init__(self, url: str, directory: Path, seed: int, **settings: str) -> None:
        """Start nothing."""
        self.url, self.directory, self.settings = url, directory, settings
        self.own: dict[str, dict[str, str]] = {}
        """Settings of one replica."""
        self.space = ""
        """The network namespace of the replicas."""
        directory.mkdir(exist_ok=True)
        self.program = directory / "program"
        for end, text in (("", PROGRAM), (".read", MARKS), (".probe", PROBE)):
            Path(f"{self.program}{end}").write_text(text)
        Path(f"{self.program}.marks").mkdir()
        self.places = {name: self._place(name) for name in NAMES}
        self.crowds = {name: ReplicaCrowd(seed + at) for at, name in enumerate(NAMES)}
        self.running: dict[str, Serving] = {}
        self.ended: list[Serving] = []
        self._reader: subprocess.Popen[str] | None = None
        self._witness: Witness | None = None
        self._over = threading.Event()
        self._resolver = threading.Thread(target=self._resolve)
        self.told: dict[str, Any] = {}
        """The result of the reader at the end."""

    def _place(self, name: str) -> Place:
        return Place(
            name=name,
            directory=self.directory / name,
            metadata=f"127.0.0.1:{free_port()}",
            admin=f"127.0.0.1:{free_port()}",
        )

    # Processes

    def start(self, name: str) -> Serving:
        """Start a replica."""
        place, program = self.places[name], str(self.program)
        command = ["/bin/sh", program, name, "{vm}", "{operation}", "{generation}"]
        read = ["/bin/sh", f"{program}.read", program]
        probe = ["/bin/sh", f"{program}.probe", *command[1:2], *command[3:]]
        place.directory.mkdir(exist_ok=True)
        offset = place.directory / "offset"
        service = Serving(
            place.directory,
            fleet(0),
            space=self.space,
            clock=str(offset) if offset.exists() else "",
            **{
                "store_url": self.url,
                "cluster_name": name,
                "cluster_lease": f"{LEASE_SECONDS * 1000:.0f}ms",
                "metadata_listen": place.metadata,
                "metadata_rate_limit": "100000",
                "admin_listen": place.admin,
                # A notice of 15 minutes is one second.
                "timing_speed": "900",
                "timing_recovery": "5m",
                "driver_kind": "command",
                "driver_command_marks": shlex.join(read),
                "driver_command_probe": shlex.join(probe),
                **{
                    f"driver_command_{action}": shlex.join([*command, "{mark}"])
                    for action in ACTIONS
                },
                **self.settings,
                **self.own.get(name, {}),
            },
        )
        self.running[name] = service
        return service

    def begin(self) -> None:
        """Start both replicas, all clients and the reader."""
        for name in NAMES:
            self.start(name).wait_ready()
        self._witness = Witness(self.url)
        vms = [f"{vm}={address_of(vm)}" for vm in VMS]
        replicas = [f"{name}={place.metadata}" for name, place in self.places.items()]
        self._reader = subprocess.Popen(
            [sys.executable, replica_reader.__file__, *replicas, *vms],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name, place in self.places.items():
            self.crowds[name].begin(place.metadata, place.admin)
        self._resolver.start()

    def leader(self) -> str:
        """Return the name of the replica that leads; empty: none says so now."""
        with psycopg.connect(self.url) as connection:
            [(holder,)] = connection.execute("SELECT holder FROM lease").fetchall()
        name = holder.rpartition(" ")[0]
        if name not in self.places:
            return ""
        try:
            _, answer = http(f"http://{self.places[name].admin}/readyz", seconds=2)
        except OSError:
            return ""
        return name if answer.get("role") == "leads" else ""

    def another_life(self) -> None:
        """Add VMs that can be deleted."""
        for crowd in self.crowds.values():
            crowd.lives += 1

    def log_of(self, service: Serving) -> str:
        """Return the log of a replica; fail if it has a bug in it."""
        log = service.log()
        assert "Traceback" not in log, log
        assert "because of a bug" not in log, log
        return log

    # Shocks

    def kill(self, name: str) -> None:
        """End a replica without a warning, and start it again."""
        self._check(name)
        self.running[name].kill()
        self._again(name)

    def terminate(self, name: str) -> None:
        """Stop a replica, and start it again."""
        self._check(name)
        status, log = self.running[name].terminate(), self.running[name].log()
        # Early in its start, it ends at once. A starved one ends without its thread.
        is_right = status == 0 or "ready;" not in log or LATE_END in log
        assert is_right, f"{name} ended with {status}: {log}"
        self._again(name)

    def pause(self, name: str, seconds: float) -> None:
        """Stop the processes of a replica for a time."""
        service = self.running[name]
        service.process.send_signal(signal.SIGSTOP)
        threading.Event().wait(seconds)
        service.process.send_signal(signal.SIGCONT)
        self._check(name)

    def lose_sessions(self, rng: Random) -> None:
        """End some of the sessions at the database."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            rows = connection.execute(
                "SELECT pid FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid != pg_backend_pid()"
            ).fetchall()
            for (pid,) in rows:
                if rng.random() < 0.5:
                    connection.execute("SELECT pg_terminate_backend(%s)", (pid,))

    def set_clock(self, name: str, seconds: float) -> None:
        """Set the wall clock of a replica's machine; before the first start, to 0."""
        file = self.places[name].directory / "offset"
        file.parent.mkdir(exist_ok=True)
        file.with_suffix(".new").write_text(str(seconds), encoding="ascii")
        file.with_suffix(".new").replace(file)

    def _check(self, name: str) -> None:
        service = self.running[name]
        log = self.log_of(service)
        if service.process.poll() is not None:
            # A start that loses the database ends, and systemd starts it again.
            is_start = "ready;" not in log and "forewarn: the store" in log
            assert is_start, f"{name} ended: {log}"
            self._again(name)

    def _again(self, name: str) -> None:
        self.log_of(self.running[name])
        self.ended.append(self.running[name])
        self.start(name)

    # An operator who resolves unknown outcomes by looking at the hypervisor

    def _resolve(self) -> None:
        while not self._over.wait(0.3):
            try:
                if name := self.leader():
                    self._resolve_at(self.places[name].admin)
            except (OSError, psycopg.OperationalError):
                continue

    def _resolve_at(self, admin: str) -> None:
        status, answer = http(f"http://{admin}/v1/operations?limit=100")
        for row in answer["operations"] if status == 200 else ():
            if row["state"] != OperationState.IMPACTING.value:
                continue
            operation = row["operation"]
            lines = [work for work in self.journal() if work.operation == operation]
            begun = {work.vm for work in lines if work.what == "begun"}
            done = {work.vm for work in lines if work.what == "done"}
            if begun == done:
                vms = {move["vm"] for move in row["moves"]}
                outcome = "done" if done >= vms else "failed"
                body = {"operation": operation, "outcome": outcome}
                # Refused if the outcome is not unknown.
                http(f"http://{admin}/v1/resolve", body)

    # The end

    def journal(self) -> list[Work]:
        """Return what the programs of all drivers have done."""
        return journal(Path(f"{self.program}.log"))

    def acts(self) -> list[Act]:
        """Return which replica has started which program, and when."""
        return lease_witness.acts(Path(f"{self.program}.acts"))

    def approvals(self) -> int:
        """Return how many approvals were answered with 200."""
        return sum(len(crowd.acknowledged) for crowd in self.crowds.values())

    def part(self) -> None:
        """Stop the clients and the reader."""
        for crowd in self.crowds.values():
            crowd.part()
        assert self._reader is not None
        output, _ = self._reader.communicate("", timeout=120)
        self.told = json.loads(output)

    def end(self) -> None:
        """Let all work end, stop the replicas, and judge everything."""
        for name in NAMES:
            self._check(name)
            self.running[name].wait_ready()
        end_all(lambda: self.running.get(self.leader()))
        self._over.set()
        self._resolver.join()
        for service in self.running.values():
            assert service.terminate() == 0, service.log()
            self.log_of(service)
        self.judge()

    def judge(self) -> None:
        """Check the database against all that was answered, read and called."""
        crowds = [*self.crowds.values()]
        strange = [problem for crowd in crowds for problem in crowd.strange]
        assert not strange, strange
        assert not self.told["errors"], self.told["errors"]
        work = self.journal()
        mirror = Mirror()

        def read(reader: Reader, _moment: object) -> list[str]:
            mirror.tables |= stored(reader)
            names = {name for crowd in crowds for name in crowd.requests}
            return sorted(name for name in names if reader.get(Request, name) is None)

        cluster = PostgresCluster(self.url)
        lost = cluster.follow(None, read)
        cluster.close()
        assert not lost, f"orders that were answered with 201 are lost: {lost}"
        judge_content(mirror, crowds, work)
        self._judge_calls(mirror)
        assert self._witness is not None, "it has begun"
        acted, held = self.acts(), self._witness.holdings()
        assert acted, "no driver has acted"
        wrong = lease_witness.faults(held, acted)
        assert not wrong, wrong

    def _judge_calls(self, mirror: Mirror) -> None:
        """No replica showed an event as Scheduled after a call for it had begun."""
        began: dict[str, float] = {}
        for line in Path(f"{self.program}.times").read_text().splitlines():
            operation, _, up = line.split()
            began[operation] = min(float(up), began.get(operation, float(up)))
        for event_id, asked in self.told["scheduled"].items():
            operation = mirror.events[event_id].operation
            if operation in began:
                late = asked - began[operation]
                assert late < CLOCK_SLACK_SECONDS, (
                    f"{event_id} was Scheduled {late:.3f} s after the call for it"
                )

    def close(self) -> None:
        """End whatever runs."""
        self._over.set()
        for crowd in self.crowds.values():
            crowd.part()
        for service in self.running.values():
            service.process.send_signal(signal.SIGCONT)
            service.process.kill()
            service.process.wait()
        if self._reader is not None:
            self._reader.kill()
            self._reader.communicate()
