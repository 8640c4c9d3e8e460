"""`forewarn serve` with the driver for QEMU, and kills of the service during its calls.

Each story runs with real QEMUs whose guest is only firmware. It runs with fake ones where
there is no QEMU, and in a long run.
"""

import asyncio
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.drivers.qemu import answers
from forewarn.drivers.qemu.places import Places
from tests.support.fake_qemus import fake_words
from tests.support.interrupts import Interrupt, kills
from tests.support.processes import Serving, eventually
from tests.support.unpacked import environment, find, needing

pytestmark = [pytest.mark.system, pytest.mark.slow]

QEMU = "qemu-system-x86_64"

FLEET = """
[[host]]
name = "h1"
[[host]]
name = "h2"
[[vm]]
name = "web_0"
host = "h1"
listen = "127.0.0.1:0"
"""

ASK = """
import json, socket, sys
with socket.socket(socket.AF_UNIX) as monitor:
    monitor.settimeout(20)
    monitor.connect(sys.argv[1])
    lines = monitor.makefile("rw")
    lines.readline()
    for command in ("qmp_capabilities", "query-status"):
        lines.write(json.dumps({"execute": command}) + "\\n")
        lines.flush()
        said = {}
        while "return" not in said:
            said = json.loads(lines.readline())
    print(said["return"]["status"])
"""


class World:
    """A VM of QEMU on the first of two hosts, and a service for it."""

    def __init__(self, directory: Path, *, is_real: bool) -> None:
        self.directory = directory
        self.run = directory / "qemu"
        for host in ("h1", "h2"):
            (self.run / host).mkdir(parents=True)
        self._words = self._real() if is_real else self._fake()
        arguments = [word.replace("{vm}", "web_0") for word in self._words]
        subprocess.run([word.replace("{host}", "h1") for word in arguments], check=True)
        self.service = self.start()

    def _fake(self) -> list[str]:
        pid = f"{self.run}/{{host}}.{{vm}}.pid"
        return [*fake_words(self.run, "{vm}", "{host}"), "--daemonize", pid]

    def _real(self) -> list[str]:
        libraries = environment(QEMU).get("LD_LIBRARY_PATH", "")
        monitors = [f"{self.run}/{{host}}/{{vm}}.{kind}" for kind in ("qmp", "events")]
        sockets = [("-qmp", f"unix:{path},server=on,wait=off") for path in monitors]
        machine = "-M q35 -accel tcg,tb-size=8 -m 16 -nodefaults -no-user-config"
        return [
            *("/usr/bin/env", f"LD_LIBRARY_PATH={libraries}", find(QEMU)),
            *machine.split(),
            *("-display", "none", "-daemonize"),
            *(word for socket in sockets for word in socket),
            *("-pidfile", f"{self.run}/{{host}}.{{vm}}.pid"),
        ]

    def start(self) -> Serving:
        """Start the service."""
        receive = ["-incoming", "defer"] if QEMU in self._words[2] else ["--incoming"]
        return Serving(
            self.directory,
            FLEET,
            driver_kind="qemu",
            driver_qemu_monitor=f"{self.run}/{{host}}/{{vm}}.qmp",
            driver_qemu_events=f"{self.run}/{{host}}/{{vm}}.events",
            driver_qemu_migration="tcp:127.0.0.1:0",
            driver_qemu_start=shlex.join(self._words),
            driver_qemu_receive=shlex.join([*self._words, *receive]),
            driver_qemu_freeze="3s",
            driver_qemu_shutdown_timeout="0s",
            driver_sighting_confirm="1s",
            timing_recovery="200ms",
        ).wait_ready()

    def restart_service(self) -> None:
        """Kill the service and start it again."""
        self.service.kill()
        self.service = self.start()

    def order(self, impact: str) -> str:
        """Request maintenance of h1 and approve it as the VM; return the operation."""
        self.service.document("web_0")
        self.service.admin("/v1/maintain", {"hosts": ["h1"], "impact": impact})
        [event] = self.service.document("web_0")["Events"]
        assert self.service.approve("web_0", event["EventId"]) == 200
        [operation] = self.service.admin("/v1/operations?vm=web_0")["operations"]
        return str(operation["operation"])

    def until_done(self, operation: str) -> None:
        """Return when an operation is complete."""
        path = f"/v1/operations/{operation}"
        ended = {"Done", "Failed", "Cancelled"}
        state = eventually(
            lambda: self.service.admin(path)["state"], ended.__contains__
        )
        assert state == "Done"

    def host(self) -> str:
        """Return the recorded host of the VM."""
        [vm] = self.service.admin("/v1/fleet")["vms"]
        return str(vm["host"])

    def downtime(self) -> float:
        """Return the seconds of downtime in the history of the VM."""
        [vm] = self.service.admin("/v1/availability?vm=web_0")["vms"]
        # All of it was measured.
        assert vm["at_most_seconds"] == 0
        return float(vm["down_seconds"])

    def status(self, host: str = "h1") -> str:
        """Return the run state in QEMU."""
        path = self.run / host / "web_0.qmp"
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(path)],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout.strip()

    def has_program(self) -> bool:
        """Return whether the program of a call has started."""
        return any((self.directory / "forewarn.db.qemu").glob("*/0.program"))

    def kill_qemu(self, host: str) -> None:
        """Kill QEMU as the kernel does if memory is short."""
        os.kill(int((self.run / f"{host}.web_0.pid").read_text()), signal.SIGKILL)

    def end(self) -> None:
        """End the service and all QEMUs."""
        self.service.kill()
        for file in self.run.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError, ValueError):
                os.kill(int(file.read_text()), signal.SIGKILL)


FAKE = pytest.param("fake", marks=pytest.mark.long if find(QEMU) else ())


@pytest.fixture(params=[FAKE, pytest.param("real", marks=needing(QEMU))])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, is_real=request.param == "real")
    yield world
    world.end()


@kills
def test_guest_is_frozen_for_the_measured_time(
    world: World, interrupt: Interrupt
) -> None:
    operation = world.order("freeze")
    interrupt(world)
    world.until_done(operation)
    assert 3.0 <= world.downtime() < 30.0
    assert world.status() == "running"


@kills
def test_guest_is_migrated_and_its_downtime_is_in_the_history(
    world: World, interrupt: Interrupt
) -> None:
    operation = world.order("live-migrate")
    interrupt(world)
    world.until_done(operation)
    assert (world.host(), world.status("h2")) == ("h2", "running")
    assert not (world.run / "h1" / "web_0.qmp").exists()
    # QEMU measured it, and the migration took longer.
    assert 0 <= world.downtime() < 0.5


@kills
def test_guest_is_reset(world: World, interrupt: Interrupt) -> None:
    operation = world.order("reboot")
    interrupt(world)
    world.until_done(operation)
    assert (world.host(), world.status()) == ("h1", "running")


@pytest.mark.parametrize("is_away", [False, True])
def test_killed_guest_fails_although_nobody_asked_for_it(
    world: World, *, is_away: bool
) -> None:
    world.service.document("web_0")
    if is_away:
        world.service.kill()
    world.kill_qemu("h1")
    if is_away:
        world.service = world.start()

    def events() -> list[dict[str, Any]]:
        events_listed: list[dict[str, Any]] = world.service.document("web_0")["Events"]
        return events_listed

    [event] = eventually(events, bool, what="the failure")
    assert (event["EventStatus"], event["EventSource"]) == ("Started", "Platform")
    text = json.dumps(world.service.admin("/v1/history?vm=web_0"))
    assert "QEMU was killed or has crashed" in text
    # An operator reads it, and which commands end it.
    [problem] = world.service.admin("/v1/problems")["problems"]
    assert problem["text"] == "VM web_0 is down"
    assert problem["actions"] == ["restore", "redeploy"]
    explained = world.service.admin("/v1/explain/web_0")
    assert "forewarn restore web_0" in explained["blocked_by"][0]


def test_process_tells_its_abilities(world: World) -> None:
    places = Places(monitor=f"{world.run}/{{host}}/{{vm}}.qmp")
    questions = [("h1", ["web_0", "web_9"])]
    message = "\n".join(asyncio.run(answers.abilities(places, questions)))
    host, here, missing = (json.loads(line) for line in message.splitlines())
    assert host == {"host": "h1", "able": "yes"}
    assert here == {"host": "h1", "vm": "web_0", "able": "yes"}
    assert (missing["vm"], missing["able"]) == ("web_9", "unknown")
    assert missing["reason"].startswith("no QEMU listens on ")
