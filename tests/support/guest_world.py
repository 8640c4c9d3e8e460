"""A service, two hosts and a guest: real QEMUs, a real Linux, the real 169.254.169.254.

The hosts and the service are network namespaces (`examples/lab`). The guest is restored
from memory that was saved once, asks for its events and approves each one.
"""

import asyncio
import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from examples.lab import image, memory
from examples.lab.hosts import SERVICE, Ground, Guest, inside

from forewarn.clock import SystemClock
from forewarn.drivers.qemu.processes import MARK
from forewarn.drivers.qemu.qmp import open_monitor
from tests.support.namespaces import no_namespaces
from tests.support.processes import Serving, eventually
from tests.support.unpacked import TOOLS, environment, find, needs

QEMU = "qemu-system-x86_64"
CACHE = TOOLS.parent / "guests"
START = Path(image.__file__).with_name("start_guest.py")
VM = "web_0"

FLEET = f"""
[[host]]
name = "h1"
[[host]]
name = "h2"
[[vm]]
name = "{VM}"
host = "h1"
address = "192.0.2.4"
"""

GUEST_SECONDS = 200.0
"""Patience with a guest that boots. Its processor is emulated: it takes 3 s on a quiet
machine, and 80 s beside nine busy processes on two cores."""

EMPTY = '"Events":[]'
"""Text that each document without events contains."""


def qemu_words() -> list[str]:
    """Return QEMU as a command of `env`."""
    libraries = environment(QEMU).get("LD_LIBRARY_PATH", "")
    return [f"LD_LIBRARY_PATH={libraries}", find(QEMU)]


@functools.cache
def lacking() -> str:
    """Return why this machine cannot run guests; empty: it can."""
    if why := needs(QEMU) or needs("busybox"):
        return why
    if why := no_namespaces("ip", "tuntap", "add", "try", "mode", "tap"):
        return f"needs network namespaces with taps: {why}"
    try:
        image.build(TOOLS, CACHE)
    except image.MissingError as error:
        return str(error)
    return ""


class SpacedServing(Serving):
    """A service in a network namespace."""

    def __init__(self, directory: Path, space: str, **settings: str) -> None:
        self._space = space
        super().__init__(directory, FLEET, space=space, **settings)

    def admin(self, path: str, body: object = None) -> Any:
        return inside(self._space, lambda: super(SpacedServing, self).admin(path, body))


class GuestWorld:
    """All of it, for one test."""

    def __init__(self, directory: Path, number: int = 0) -> None:
        # The paths of sockets are short.
        self.run = Path(tempfile.mkdtemp(prefix="fw"))
        self.directory = directory
        self.ground = Ground(self.run, f"fw{os.getpid()}-{number}", ("h1", "h2"))
        self.service: Serving | None = None

    def begin(self) -> None:
        """Restore the guest on h1, and start the service."""
        built = image.build(TOOLS, CACHE)
        state = memory.saved(built, qemu_words())
        guest = Guest(
            name=VM,
            number=4,
            kernel=built.kernel,
            initramfs=built.initramfs,
            state=state,
        )
        self.ground.begin([guest], qemu_words())
        self.start_guest("h1")
        self.start_service()
        # The first document is what enables the scope.
        self.until_said(f"DOCUMENT .*{re.escape(EMPTY)}")

    def start_guest(self, host: str) -> None:
        subprocess.run(
            [sys.executable, "-I", "-S", START, self.ground.world, VM, host], check=True
        )

    def start_service(self) -> None:
        start = f"{sys.executable} -I -S {START} {self.ground.world} {{vm}} {{host}}"
        self.service = SpacedServing(
            self.directory,
            self.ground.service,
            metadata_listen=f"{SERVICE}:80",
            driver_kind="qemu",
            driver_qemu_monitor=f"{self.run}/{{host}}/{{vm}}.qmp",
            driver_qemu_events=f"{self.run}/{{host}}/{{vm}}.events",
            driver_qemu_migration=f"unix:{self.run}/{{vm}}.move",
            driver_qemu_start=start,
            driver_qemu_receive=f"{start} --receive",
            driver_qemu_freeze="3s",
            driver_qemu_shutdown_timeout="0s",
            driver_sighting_confirm="1s",
            timing_recovery="200ms",
        ).wait_ready()

    def kill_service(self) -> None:
        assert self.service is not None
        self.service.kill()

    def restart_service(self) -> None:
        self.kill_service()
        self.start_service()

    def end(self) -> None:
        if self.service is not None:
            self.service.kill()
        self.ground.end()
        shutil.rmtree(self.run, ignore_errors=True)

    # Requests of operators

    def admin(self, path: str, body: object = None) -> Any:
        assert self.service is not None
        return self.service.admin(path, body)

    def maintain(self, impact: str) -> str:
        """Request maintenance of h1; return the operation when the guest approved it."""
        self.admin("/v1/maintain", {"hosts": ["h1"], "impact": impact})
        [operation] = self.admin(f"/v1/operations?vm={VM}")["operations"]
        self.until_said("APPROVED .* 200 OK")
        return str(operation["operation"])

    def until_done(self, operation: str) -> None:
        path = f"/v1/operations/{operation}"
        ended = {"Done", "Failed", "Cancelled"}
        state = eventually(lambda: self.admin(path)["state"], ended.__contains__)
        assert state == "Done"

    def host(self) -> str:
        """Return the recorded host of the VM."""
        [vm] = self.admin("/v1/fleet")["vms"]
        return str(vm["host"])

    def downtime(self) -> float:
        """Return the seconds of downtime in the history of the VM, all measured."""
        [vm] = self.admin(f"/v1/availability?vm={VM}")["vms"]
        assert vm["at_most_seconds"] == 0
        return float(vm["down_seconds"])

    def events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = self.admin("/v1/events")["events"]
        return events

    # The guest and its calls

    def said(self, pattern: str, *hosts: str) -> list[str]:
        """Return the lines of the guest's console that begin so."""
        begins = re.compile(pattern)
        return [line for line in self.ground.said(VM, *hosts) if begins.match(line)]

    def until_said(self, pattern: str, *hosts: str, times: int = 1) -> None:
        """Return when the guest's console has so many lines that begin so."""
        eventually(
            lambda: self.said(pattern, *hosts),
            lambda lines: len(lines) >= times,
            what=f"{pattern} on the console: {self.ground.said(VM)}",
            seconds=GUEST_SECONDS,
        )

    def until_empty(self, host: str) -> None:
        """Return when the last document of a guest has no event."""

        def last() -> str:
            lines = self.said("DOCUMENT|BOOT", host)
            return lines[-1] if lines else ""

        eventually(
            last,
            lambda line: EMPTY in line,
            what="a document without events",
            seconds=GUEST_SECONDS,
        )

    def has_program(self) -> bool:
        """Return whether the program of a call has started."""
        return any((self.directory / "forewarn.db.qemu").glob("*/0.program"))

    def ask_qemu(self, command: str, **arguments: str) -> Any:
        """Return the answer of the guest's QEMU on h1 to a command."""

        async def ask() -> Any:
            async with await open_monitor(self.run / "h1" / f"{VM}.third") as monitor:
                return await monitor.execute(command, arguments)

        return asyncio.run(ask())

    def is_frozen(self) -> bool:
        return self.ask_qemu("query-status")["status"] == "paused"

    def mark(self) -> str:
        """Return the mark of the last call in QEMU."""
        return str(
            self.ask_qemu("qom-get", path=f"/objects/{MARK}", property="identity")
        )

    def lose_records(self) -> None:
        """Remove the memory of the driver."""
        shutil.rmtree(self.directory / "forewarn.db.qemu")

    def kill_guest(self, host: str) -> float:
        """Kill QEMU; return the time of it."""
        self.ground.kill(VM, host)
        return SystemClock().monotonic()


def world_or_skip(directory: Path) -> GuestWorld:
    if why := lacking():
        pytest.skip(why)
    return GuestWorld(directory)
