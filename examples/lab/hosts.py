"""Hosts as network namespaces on one machine: taps for guests, joined by bridges.

The service has a namespace of its own, and 169.254.169.254 is its address. Nothing of the
machine's network is touched.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from examples.lab.start_guest import MEMORY_MIB

T = TypeVar("T")

SERVICE = "169.254.169.254"

GATEWAY = "192.0.2.1"
"""Address of the guests' router, which is where the service is."""

_NEW_NET = 0x40000000
"""CLONE_NEWNET of `setns`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """A VM, and what it boots."""

    name: str
    number: int
    """From 2 to 254: the end of its address."""
    kernel: Path
    initramfs: Path
    state: Path | None = None
    """Its saved memory; None: it boots from the kernel."""
    memory: int = MEMORY_MIB

    @property
    def address(self) -> str:
        """Return its address."""
        return f"192.0.2.{self.number}"

    @property
    def tap(self) -> str:
        """Return the name of its card on each host."""
        return f"tap{self.number}"

    @property
    def mac(self) -> str:
        """Return the address of its card."""
        return f"52:54:00:00:02:{self.number:02x}"


def run(*words: str, text: str = "") -> str:
    """Return the output of a command that reads a text; raises RuntimeError."""
    done = subprocess.run(
        words, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


class Ground:
    """The namespaces of the service and of its hosts, and the QEMUs in them.

    `folder` has the monitors, the consoles and the numbers of the processes. Its path must
    be short, since it is in the paths of sockets.
    """

    def __init__(self, folder: Path, prefix: str, hosts: Iterable[str]) -> None:
        """Make nothing yet; `prefix` begins the names of the namespaces."""
        self.folder, self.prefix = folder, prefix
        self.service = f"{prefix}-service"
        self.hosts = {host: f"{prefix}-{host}" for host in hosts}
        self.world = folder / "world.json"

    def begin(
        self, guests: Sequence[Guest], qemu: Sequence[str], *, poll_ms: int = 200
    ) -> None:
        """Make the namespaces, and write down how to start each guest.

        `poll_ms` are the milliseconds between two questions of a guest for its events.
        """
        self._make(self.service)
        self._in(
            self.service,
            f"address add {GATEWAY}/24 dev br0",
            f"address add {SERVICE}/32 dev br0",
        )
        for number, (host, space) in enumerate(self.hosts.items()):
            self._make(space)
            (self.folder / host).mkdir()
            self._in(
                self.service,
                f"link add host{number} type veth peer name uplink netns {space}",
                f"link set host{number} master br0 up",
            )
            taps = [guest.tap for guest in guests]
            self._in(
                space,
                "link set uplink master br0 up",
                *(f"tuntap add {tap} mode tap" for tap in taps),
                *(f"link set {tap} master br0 up" for tap in taps),
            )
        self.world.write_text(
            json.dumps({**self._described(guests, qemu), "poll": poll_ms}), "utf-8"
        )

    def _described(
        self, guests: Sequence[Guest], qemu: Sequence[str]
    ) -> dict[str, object]:
        return {
            "run": str(self.folder),
            "qemu": list(qemu),
            "gateway": GATEWAY,
            "hosts": self.hosts,
            "guests": {
                guest.name: {
                    "address": guest.address,
                    "mac": guest.mac,
                    "tap": guest.tap,
                    "kernel": str(guest.kernel),
                    "initramfs": str(guest.initramfs),
                    "state": str(guest.state or ""),
                    "memory": guest.memory,
                }
                for guest in guests
            },
        }

    def _make(self, space: str) -> None:
        run("ip", "netns", "add", space)
        quiet = "for each in all default; do echo 1 >/proc/sys/net/ipv6/conf/$each/disable_ipv6; done"
        run(
            "ip",
            "netns",
            "exec",
            space,
            "sh",
            "-c",
            f"[ ! -d /proc/sys/net/ipv6 ] || {quiet}",
        )
        self._in(
            space,
            "link set lo up",
            "link add br0 type bridge forward_delay 0 stp_state 0",
            "link set br0 up",
        )

    def _in(self, space: str, *lines: str) -> None:
        """Run commands of `ip` in a namespace."""
        run("ip", "-n", space, "-batch", "-", text="\n".join(lines))

    def run_in(self, host: str, *lines: str) -> None:
        """Run commands of `ip` on a host."""
        self._in(self.hosts[host], *lines)

    # Guests

    def pid(self, vm: str, host: str) -> int:
        """Return the process of a guest on a host; 0 if it has none."""
        try:
            pid = int((self.folder / host / f"{vm}.pid").read_text("utf-8"))
            # The number can have passed to another process.
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return 0
        return pid if f"{self.folder}/{host}/{vm}.pid".encode() in words else 0

    def kill(self, vm: str, host: str) -> None:
        """Kill a guest, as the kernel does if memory is short."""
        if pid := self.pid(vm, host):
            os.kill(pid, signal.SIGKILL)

    def said(self, vm: str, *hosts: str) -> list[str]:
        """Return the whole lines of a guest's console: those of each host, in order."""
        lines: list[str] = []
        for host in hosts or self.hosts:
            with contextlib.suppress(FileNotFoundError):
                path = self.folder / host / f"{vm}.log"
                text = path.read_text("utf-8", "replace")
                lines += text.rpartition("\n")[0].splitlines()
        return lines

    def end(self) -> None:
        """Kill all guests and remove the namespaces."""
        for host in self.hosts:
            for file in (self.folder / host).glob("*.pid"):
                self.kill(file.stem, host)
        for space in (self.service, *self.hosts.values()):
            subprocess.run(
                ["ip", "netns", "delete", space], check=False, capture_output=True
            )


def inside(space: str, work: Callable[[], T]) -> T:
    """Return the result of `work` in a thread whose new sockets are in a namespace."""

    def enter_and_work() -> T:
        enter(space)
        return work()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(enter_and_work).result()


def enter(space: str) -> None:
    """Move this thread into a network namespace."""
    with Path("/run/netns", space).open("rb") as file:
        if ctypes.CDLL(None, use_errno=True).setns(file.fileno(), _NEW_NET):
            raise OSError(ctypes.get_errno(), f"cannot enter {space}")
