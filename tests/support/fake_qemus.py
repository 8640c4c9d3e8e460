"""Fake QEMUs as processes of their own, with two monitors each."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.support.processes import eventually

FAKE = Path(__file__).with_name("fake_qemu.py")


def fake_words(folder: Path, vm: str, host: str) -> list[str]:
    """Return the command of a fake QEMU that is a VM on a host."""
    place = folder / host
    place.mkdir(exist_ok=True, parents=True)
    monitors = [f"--monitor={place}/{vm}.{kind}" for kind in ("qmp", "events")]
    return [sys.executable, "-I", "-S", str(FAKE), *monitors]


class FakeQemus:
    """The processes of one test, in a folder with one folder for each host."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}

    def start(self, vm: str, host: str, *more: str) -> Path:
        """Start one, and return the socket of its first monitor."""
        words = [*fake_words(self.folder, vm, host), *more]
        self._processes[vm, host] = subprocess.Popen(words)
        path = self.folder / host / f"{vm}.events"
        eventually(path.exists, bool, what="the monitor")
        return self.folder / host / f"{vm}.qmp"

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
        for file in self.folder.glob("*.pid"):
            os.kill(int(file.read_text()), signal.SIGKILL)
