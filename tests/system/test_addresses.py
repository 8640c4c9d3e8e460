"""The address kit between network namespaces: a host, its guests, and liars.

Each test has a host and guests of its own, and leaves nothing of them behind. The
machine's own network is never touched.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import PATIENCE_SECONDS, eventually

pytestmark = [pytest.mark.system, pytest.mark.slow]

SERVICE = "169.254.169.254"
SILENCE_SECONDS = 1
"""How long a guest waits for what must not come."""

ASK = """
import socket, sys, urllib.request
source, port, seconds, url = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4]
import http.client
host, _, path = url.removeprefix("http://").partition("/")
connection = http.client.HTTPConnection(
    host, timeout=seconds, source_address=(source, port) if source else None)
try:
    connection.request("GET", "/" + path, headers={"Metadata": "true"})
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
except OSError as error:
    print("none", error)
"""

SYN = """
import socket, struct, sys
source, target, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def total(data):
    words = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while words >> 16:
        words = (words & 0xFFFF) + (words >> 16)
    return ~words & 0xFFFF
ends = socket.inet_aton(source) + socket.inet_aton(target)
tcp = struct.pack("!HHIIBBHHH", 40001, port, 7, 0, 0x50, 2, 1024, 0, 0)
check = total(ends + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)
tcp = tcp[:16] + struct.pack("!H", check) + tcp[18:]
ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 1, 0, 64, 6, 0) + ends
raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
raw.sendto(ip + tcp, (target, 0))
"""


def run(*words: str, **options: Any) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
    return done.stdout


class Namespace:
    """A network namespace: a host, a guest or a router."""

    def __init__(self, name: str) -> None:
        self.name = name
        run("ip", "netns", "add", name)
        for family in ("all", "default"):
            self.set_sysctl(f"ipv6/conf/{family}/disable_ipv6", "1")
        self.ip("link set lo up")

    def words(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *words]

    def run(self, *words: str, **options: Any) -> str:
        return run(*self.words(*words), **options)

    def ip(self, words: str) -> str:
        return run("ip", "-n", self.name, *words.split())

    def set_sysctl(self, key: str, text: str) -> None:
        self.run("sh", "-c", f"echo {text} > /proc/sys/net/{key}")

    def ask(
        self, path: str, *, source: str = "", port: int = 0, at: str = SERVICE,
        seconds: float = PATIENCE_SECONDS,
    ) -> str:
        """Return the status and the text of an answer, or `none` and why."""
        words = (source, str(port), str(seconds), f"http://{at}{path}")
        return self.run(sys.executable, "-I", "-c", ASK, *words).strip()

    def who(self, **options: Any) -> str:
        """Return who the service says that this guest is."""
        return self.ask(
            "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
            **options,
        )

    def send_syn(self, source: str, port: int = 80) -> None:
        self.run(sys.executable, "-I", "-c", SYN, source, SERVICE, str(port))

    def state(self) -> str:
        """Return all that `apply` could have changed."""
        return "\n".join(
            (
                self.run("nft", "list", "ruleset"),
                self.ip("address show"),
                self.ip("route show table all"),
                self.ip("rule show"),
                self.run(
                    "sh", "-c", "grep -rs '' /proc/sys/net/ipv4 /proc/sys/net/bridge"
                ),
            )
        )


class World:
    """A host and what is connected to it."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self._prefix = prefix
        self._spaces: list[Namespace] = []
        self._service: subprocess.Popen[bytes] | None = None
        self.host = self.space("host")
        # As strict as any distribution is.
        for name in ("all", "default"):
            self.host.set_sysctl(f"ipv4/conf/{name}/rp_filter", "1")
        self.host.set_sysctl("ipv4/ip_forward", "1")
        # What was there before must be there afterwards.
        self.host.run(
            "nft",
            "add table inet mine; add chain inet mine in "
            "{ type filter hook input priority 0; policy accept; }",
        )

    def space(self, name: str) -> Namespace:
        space = Namespace(f"{self._prefix}-{name}")
        self._spaces.append(space)
        return space

    def guest(self, name: str, *, bridge: str = "") -> Namespace:
        """Return a guest whose card is `eth0`, and the host's end of it `tap-NAME`."""
        space = self.space(name)
        self.plug(space, f"tap-{name}")
        if bridge:
            self.host.ip(f"link set tap-{name} master {bridge}")
        return space

    def plug(self, space: Namespace, interface: str) -> None:
        self.host.ip(
            f"link add {interface} type veth peer name eth0 netns {space.name}"
        )
        self.host.ip(f"link set {interface} up")
        space.ip("link set eth0 up")

    def routed_guest(self, name: str, address: str) -> Namespace:
        space = self.guest(name)
        space.ip(f"address add {address}/32 dev eth0")
        space.ip("route add default dev eth0")
        return space

    def write(self, name: str, text: str) -> None:
        (self.folder / name).write_text(text, encoding="utf-8")

    def forewarn(self, *words: str) -> str:
        """Run a command of the address kit on the host."""
        return self.host.run(
            sys.executable, "-m", "forewarn", "addresses", *words, cwd=self.folder
        )

    def guests(self) -> dict[str, dict[str, Any]]:
        shown: Sequence[dict[str, Any]] = json.loads(self.forewarn("show", "--json"))
        return {row["vm"]: row for row in shown}

    def serve(self, listen: str = "") -> None:
        """Start the service; return when it is ready."""
        log = self.folder / "log"
        with log.open("wb") as output:
            self._service = subprocess.Popen(
                self.host.words(
                    sys.executable, "-m", "forewarn", "serve", "--fleet=fleet.toml",
                    "--store-url=memory://", "--admin-listen=127.0.0.1:0",
                    f"--metadata-listen={listen}",
                ),
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            )
        service = self._service
        eventually(
            lambda: log.read_text(encoding="utf-8"),
            lambda text: "ready;" in text or service.poll() is not None,
            what="a ready service",
        )
        assert service.poll() is None, log.read_text(encoding="utf-8")

    def end(self) -> None:
        if self._service is not None:
            self._service.send_signal(signal.SIGKILL)
            self._service.wait()
        for space in self._spaces:
            subprocess.run(["ip", "netns", "delete", space.name], check=False)


def lacking() -> str:
    """Return why these tests cannot run here; nothing if they can."""
    if os.geteuid():
        return "needs root, for network namespaces"
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    for program, package in (("nft", "nftables"), ("ip", "iproute2")):
        if shutil.which(program, path=path) is None:
            return f"needs {program}, of Debian's package {package}"
    name = f"fw{os.getpid()}-try"
    made = subprocess.run(
        ["ip", "netns", "add", name], check=False, capture_output=True, text=True
    )
    if made.returncode:
        return f"needs network namespaces: {made.stderr.strip()}"
    tried = subprocess.run(
        ["ip", "netns", "exec", name, "nft", "add table inet try; add table bridge try"],
        check=False, capture_output=True, text=True,
    )
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return f"needs nftables in the kernel: {tried.stderr}" if tried.returncode else ""


Make = Callable[[], World]


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    if why := lacking():
        pytest.skip(why)
    # Made piece by piece, so that what a failure leaves half-made is removed too.
    made = World.__new__(World)
    made._spaces = []
    made._service = None
    try:
        made.__init__(tmp_path, f"fw{os.getpid()}")
        yield made
    finally:
        made.end()
