"""Hosts as network namespaces on one machine, with taps for guests.

The service has a namespace of its own. Without relays, all guests are in one network, and
169.254.169.254 is an address of the service. With relays, the guests of each host are in a
network of their own, `forewarn addresses` leads them to the relay of their host, and another
network joins the hosts and the service. Nothing of the machine's network is touched.
"""

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from examples.lab.start_guest import MEMORY_MIB

T = TypeVar("T")

SERVICE = "169.254.169.254"

GATEWAY = "192.0.2.1"
"""Address of the guests' router: the service, or with relays each host."""

GATEWAY_MAC = "52:54:00:00:01:01"
"""The same on each host with a relay, so that a guest that has moved finds its router."""

CONTROL = "198.51.100.1"
"""Address of the service in the network of the hosts, which only relays need."""

RELAY_PORT = 8080
"""Port of the relay of each host. Guests ask at port 80 of 169.254.169.254."""

_FIRST_HOST = 10
"""The end of the first host's address in that network."""

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
    poll_ms: int = 200
    """Milliseconds between two questions for its events."""

    @property
    def address(self) -> str:
        """Return its address."""
        return guest_address(self.number)

    @property
    def tap(self) -> str:
        """Return the name of its card on each host."""
        return tap_of(self.number)

    @property
    def mac(self) -> str:
        """Return the address of its card."""
        return mac_of(self.number)


def guest_address(number: int) -> str:
    """Return the address of a guest."""
    return f"192.0.2.{number}"


def mac_of(number: int) -> str:
    """Return the address of the card of a guest."""
    return f"52:54:00:00:02:{number:02x}"


def tap_of(number: int) -> str:
    """Return the name of the card of a guest on each host."""
    return f"tap{number}"


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

    `directory` has the monitors, the consoles and the numbers of the processes. Its path must
    be short, since it is in the paths of sockets.
    """

    def __init__(
        self,
        directory: Path,
        prefix: str,
        hosts: Iterable[str],
        *,
        has_relays: bool = False,
    ) -> None:
        """Make nothing yet; `prefix` begins the names of the namespaces."""
        self.directory, self.prefix = directory, prefix
        self._has_relays = has_relays
        self.service = f"{prefix}-service"
        self.hosts = {host: f"{prefix}-{host}" for host in hosts}
        self.world = directory / "world.json"
        self.addresses = directory / "addresses.toml"
        """The file of `forewarn addresses`, one for all hosts."""

    def begin(self, guests: Sequence[Guest], qemu: Sequence[str]) -> None:
        """Make the namespaces, and write down how to start each guest."""
        self.make([guest.number for guest in guests])
        self.describe(guests, qemu)

    def make(self, numbers: Iterable[int]) -> None:
        """Make the namespaces, for guests with these numbers."""
        taps = [tap_of(number) for number in numbers]
        router = f"address add {GATEWAY}/24 dev br0"
        self._make(self.service)
        inner = (f"address add {CONTROL}/24 dev br0",)
        if not self._has_relays:
            inner = router, f"address add {SERVICE}/32 dev br0"
        self._in(self.service, *inner)
        for number, (host, space) in enumerate(self.hosts.items()):
            self._make(space)
            (self.directory / host).mkdir()
            self._in(
                self.service,
                f"link add host{number} type veth peer name uplink netns {space}",
                f"link set host{number} master br0 up",
            )
            uplink = ("link set uplink master br0 up",)
            if self._has_relays:
                uplink = (
                    "link set uplink up",
                    f"address add {self.address_of(host)}/24 dev uplink",
                    f"link set br0 address {GATEWAY_MAC}",
                    router,
                )
            self._in(
                space,
                *uplink,
                *(f"tuntap add {tap} mode tap" for tap in taps),
                *(f"link set {tap} master br0 up" for tap in taps),
            )

    def lead(self, numbers: Iterable[int]) -> None:
        """Lead the guests with these numbers to the relay of their host, on each host."""
        self.addresses.write_text(
            f'way = "source"\nlisten = "0.0.0.0:{RELAY_PORT}"\n'
            + "".join(
                f'[[port]]\nvm = "guest_{number}"\ninterface = "{tap_of(number)}"\n'
                f'bridge = "br0"\naddress = "{guest_address(number)}"\n'
                f'mac = "{mac_of(number)}"\n'
                for number in numbers
            ),
            "utf-8",
        )
        for host in self.hosts:
            run(*self.leading_words(host))

    def leading_words(self, host: str) -> list[str]:
        """Return the command that leads the guests of a host, now and after its boot."""
        inner = [sys.executable, "-m", "forewarn", "addresses", "apply"]
        return [*("ip", "netns", "exec", self.hosts[host]), *inner, str(self.addresses)]

    def address_of(self, host: str) -> str:
        """Return the address of a host in the network that joins the hosts."""
        number = _FIRST_HOST + [*self.hosts].index(host)
        return f"{CONTROL.rpartition('.')[0]}.{number}"

    def describe(self, guests: Sequence[Guest], qemu: Sequence[str]) -> None:
        """Write down how to start each guest."""
        world = {
            "run": str(self.directory),
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
                    "poll": guest.poll_ms,
                }
                for guest in guests
            },
        }
        self.world.write_text(json.dumps(world), "utf-8")

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

    # Guests

    def pid(self, vm: str, host: str) -> int:
        """Return the process of a guest on a host; 0 if it has none."""
        try:
            pid = int((self.directory / host / f"{vm}.pid").read_text("utf-8"))
            # The number can have passed to another process.
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return 0
        return pid if f"{self.directory}/{host}/{vm}.pid".encode() in words else 0

    def kill(self, vm: str, host: str) -> None:
        """Kill a guest, as the kernel does if memory is short."""
        if pid := self.pid(vm, host):
            os.kill(pid, signal.SIGKILL)

    def said(self, vm: str, *hosts: str) -> list[str]:
        """Return the whole lines of a guest's console: those of each host, in order."""
        lines: list[str] = []
        for host in hosts or self.hosts:
            with contextlib.suppress(FileNotFoundError):
                path = self.directory / host / f"{vm}.log"
                text = path.read_text("utf-8", "replace")
                lines += text.rpartition("\n")[0].splitlines()
        return lines

    def end(self) -> None:
        """Kill all guests and remove the namespaces."""
        for host in self.hosts:
            for file in (self.directory / host).glob("*.pid"):
                self.kill(file.stem, host)
        for space in (self.service, *self.hosts.values()):
            subprocess.run(
                ["ip", "netns", "delete", space], check=False, capture_output=True
            )


def kill_noted(file: Path, word: str) -> None:
    """Kill the process whose number is in a file, if its command has a word."""
    # The number can have passed to another process.
    with contextlib.suppress(OSError, ValueError):
        pid = int(file.read_text("utf-8"))
        if word.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)


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
