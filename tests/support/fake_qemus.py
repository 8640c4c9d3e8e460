"""Fake QEMUs as processes of their own, with two monitors each."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from forewarn.drivers.qemu.places import Places
from tests.support.compiled import compiled
from tests.support.processes import eventually

FAKE = compiled(str(Path(__file__).with_name("fake_qemu.py")))


def fake_words(directory: Path, vm: str, host: str) -> tuple[str, ...]:
    """Return the command of a fake QEMU that is a VM on a host."""
    monitors = [
        f"--monitor={directory}/{host}/{vm}.{kind}" for kind in ("qmp", "events")
    ]
    return sys.executable, "-I", "-S", FAKE, *monitors


def places_in(directory: Path, **more: Any) -> Places:
    """Return the settings of a driver for the fake QEMUs in a directory."""
    directory.mkdir(exist_ok=True)
    arguments = fake_words(directory, "{vm}", "{host}")
    start = (*arguments, "--daemonize", f"{directory}/{{vm}}.{{host}}.pid")
    usual: dict[str, Any] = {
        "monitor": f"{directory}/{{host}}/{{vm}}.qmp",
        "events": f"{directory}/{{host}}/{{vm}}.events",
        "migration": f"unix:{directory}/{{vm}}.move",
        "start": start,
        "receive": (*start, "--incoming"),
        "freeze": 0.05,
    }
    return Places(**{**usual, **more})


class FakeQemus:
    """The processes of one test, in a directory with one directory for each host."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}

    def start(self, vm: str, host: str, *more: str) -> Path:
        """Start one, and return the socket of its first monitor."""
        arguments = (*fake_words(self.directory, vm, host), *more)
        self._processes[vm, host] = subprocess.Popen(arguments)
        path = self.directory / host / f"{vm}.events"
        eventually(path.exists, bool, what="the monitor")
        return self.directory / host / f"{vm}.qmp"

    def kill(self, vm: str, host: str) -> None:
        """Kill one, as the kernel does if memory is short."""
        process = self._processes.pop((vm, host))
        process.kill()
        process.wait()

    def end(self) -> None:
        """End those that still run, also those that programs have started."""
        for process in self._processes.values():
            process.kill()
            process.wait()
        for file in self.directory.glob("*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)
