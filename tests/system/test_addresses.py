"""The address kit between network namespaces: a host, guests, and spoofed packets.

Each test has a host and guests of its own, and leaves nothing of them behind. The
machine's own network is never touched.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.namespaces import Space, no_namespaces
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.profiles import some
from tests.support.unpacked import needs

pytestmark = [pytest.mark.system, pytest.mark.slow]

SERVICE = "169.254.169.254"
SILENCE_SECONDS = 0.5
"""Time for which a guest waits for a response that must not come."""

ASK = """
import http.client, sys
source, port, seconds, url = sys.argv[1:]
host, _, path = url.removeprefix("http://").partition("/")
connection = http.client.HTTPConnection(
    host, timeout=float(seconds),
    source_address=(source, int(port)) if source else None)
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
if len(sys.argv) > 4:
    # Inside two tags of VLAN 0, which a host takes off and a bridge does not.
    mac = bytes.fromhex(sys.argv[4].replace(":", ""))
    raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    raw.bind(("eth0", 0))
    check = struct.pack("!H", total(ip))
    tags = bytes.fromhex("8100 0000 8100 0000 0800")
    raw.send(mac + raw.getsockname()[4] + tags + ip[:10] + check + ip[12:] + tcp)
else:
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    raw.sendto(ip + tcp, (target, 0))
"""


class Namespace(Space):
    """A network namespace: a host, a guest or a router."""

    def ask(
        self,
        path: str,
        *,
        source: str = "",
        port: int = 0,
        at: str = SERVICE,
        seconds: float = PATIENCE_SECONDS,
    ) -> str:
        """Return the status and the text of an answer, or `none` and why."""
        arguments = (source, str(port), str(seconds), f"http://{at}{path}")
        return self.run(sys.executable, "-I", "-c", ASK, *arguments).strip()

    def who(self, **options: Any) -> str:
        """Return who the service says that this guest is."""
        return self.ask(
            "/metadata/instance/compute/name?api-version=2021-02-01&format=text",
            **options,
        )

    def mac(self, interface: str = "eth0") -> str:
        return self.ip(f"-br link show {interface}").split()[2]

    def send_syn(self, source: str, port: int = 80, *tagged_to: str) -> None:
        arguments = (source, SERVICE, str(port), *tagged_to)
        self.run(sys.executable, "-I", "-c", SYN, *arguments)

    def counted(self, table: str, name: str) -> int:
        """Return the packets of a counter of nftables."""
        shown = self.run("nft", "-j", "list", "counter", "inet", table, name)
        return json.loads(shown)["nftables"][-1]["counter"]["packets"]

    def state(self) -> str:
        """Return all that `apply` could have changed.

        The kernel adds addresses of IPv6 by itself, seconds after a link is up.
        """
        return "\n".join(
            (
                self.run("nft", "list", "ruleset"),
                self.ip("-4 address show"),
                self.ip("route show table all"),
                self.ip("rule show"),
                self.run(
                    "sh",
                    "-c",
                    "grep -rs '' /proc/sys/net/ipv4 /proc/sys/net/bridge; true",
                ),
            )
        )


class World:
    """A host and what is connected to it."""

    def __init__(self, directory: Path, prefix: str) -> None:
        self.directory = directory
        self._prefix = prefix
        self._spaces: list[Namespace] = []
        self._service: subprocess.Popen[bytes] | None = None
        self.host: Namespace
        self.fleet = ["--fleet=fleet.toml"]

    def begin(self) -> None:
        """Make the host."""
        self.host = self.space("host")
        # As strict as any distribution is.
        for name in ("all", "default"):
            self.host.set_sysctl(f"ipv4/conf/{name}/rp_filter", "1")
        self.host.set_sysctl("ipv4/ip_forward", "1")
        # Everything that existed before must exist afterwards.
        self.host.run(
            "nft",
            "add table inet mine; add chain inet mine in { type filter hook input "
            "priority 0; }; add rule inet mine in ct state invalid drop",
        )

    def space(self, name: str) -> Namespace:
        space = Namespace(f"{self._prefix}-{name}")
        # Noted before it is made whole, so that it is removed in any case.
        self._spaces.append(space)
        space.begin()
        return space

    def guest(self, name: str, *, bridge: str = "") -> Namespace:
        """Return a guest whose card is `eth0`, and the host's end of it `tap-NAME`."""
        space, tap = self.space(name), f"tap-{name}"
        self.host.ip(f"link add {tap} type veth peer name eth0 netns {space.name}")
        self.host.ip(f"link set {tap} up")
        space.ip("link set eth0 up")
        if bridge:
            self.host.ip(f"link set {tap} master {bridge}")
        return space

    def routed_guest(self, name: str, address: str) -> Namespace:
        space = self.guest(name)
        space.ip(f"address add {address}/32 dev eth0")
        space.ip("route add default dev eth0")
        return space

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text, encoding="utf-8")

    def forewarn(self, *words: str) -> str:
        """Run a command of the address kit on the host."""
        return self.host.run(
            sys.executable, "-m", "forewarn", "addresses", *words, cwd=self.directory
        )

    def guests(self) -> dict[str, dict[str, Any]]:
        shown: Sequence[dict[str, Any]] = json.loads(
            self.forewarn("show", "--json", *self.fleet)
        )
        return {row["vm"]: row for row in shown}

    def unknown_callers(self) -> int:
        """Return how many packets from unknown callers came to the host's own stack."""
        return self.host.counted("forewarn", "strangers")

    def serve(self, listen: str = "") -> None:
        """Start the service; return when it is ready."""
        log = self.directory / "log"
        with log.open("wb") as output:
            self._service = subprocess.Popen(
                self.host.words(
                    sys.executable,
                    "-m",
                    "forewarn",
                    "serve",
                    "--fleet=fleet.toml",
                    "--store-url=memory://",
                    "--admin-listen=127.0.0.1:0",
                    f"--metadata-listen={listen}",
                ),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
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
            self._service.kill()
            self._service.wait()
        for space in self._spaces:
            space.end()


def lacking() -> str:
    """Return why these tests cannot run here; nothing if they can."""
    if why := needs("nft"):
        return why
    try_nft = ("nft", "add table inet try; add table bridge try")
    if why := no_namespaces(*try_nft):
        return f"needs network namespaces with nftables: {why}"
    return ""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    if why := lacking():
        pytest.skip(why)
    world = World(tmp_path, f"fw{os.getpid()}")
    try:
        world.begin()
        yield world
    finally:
        world.end()


FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "a"
host = "h1"
address = "10.9.0.1"
[[vm]]
name = "b"
host = "h1"
address = "10.9.0.2"
"""

BY_SOURCE = """
listen = "{listen}"
[[port]]
vm = "a"
interface = "tap-a"
address = "10.9.0.1"
[[port]]
vm = "b"
interface = "tap-b"
address = "10.9.0.2"
[[port]]
vm = "c"
interface = "tap-c"
address = "10.9.0.3"
"""


def forge_and_be_caught(world: World, liar: Namespace) -> None:
    """Let guest `b` claim to be `a`, in every way; it is heard in none."""
    before = world.guests()
    liar.ip("address add 10.9.0.1/32 dev eth0")
    assert liar.who(source="10.9.0.1", seconds=SILENCE_SECONDS).startswith("none")
    liar.ip("address del 10.9.0.1/32 dev eth0")
    forged = world.guests()["b"]["forged"]
    assert forged > before["b"]["forged"]
    # Raw packets need no address; and the listener's port is no way around.
    for port in (80, 8080):
        liar.send_syn("10.9.0.1", port)
    eventually(lambda: world.guests()["b"]["forged"], lambda count: count >= forged + 2)
    # An address that no guest of the file has is a spoofed one too.
    known = world.guests()["b"]
    liar.send_syn("203.0.113.9")
    eventually(
        lambda: world.guests()["b"]["forged"], lambda count: count > known["forged"]
    )
    after = world.guests()
    assert after["b"]["refused"] == known["refused"]
    assert after["a"]["asked"] == before["a"]["asked"]
    assert after["b"]["asked"] == before["b"]["asked"]


@pytest.mark.clause("1.1")
@pytest.mark.parametrize("host", some(["0.0.0.0", SERVICE], usual=[SERVICE]))
def test_routed_guests_are_identified_by_source_address(
    world: World, host: str
) -> None:
    guests = {
        name: world.routed_guest(name, f"10.9.0.{number}")
        for number, name in enumerate("abcd", start=1)
    }
    for number, name in enumerate("abcd", start=1):
        world.host.ip(f"route add 10.9.0.{number}/32 dev tap-{name}")
    world.write("fleet.toml", FLEET)
    world.fleet = []
    world.write("addresses.toml", BY_SOURCE.format(listen=f"{host}:8080"))
    before = world.host.state()
    world.forewarn("apply", *world.fleet)
    world.serve(f"{host}:8080")
    assert guests["a"].who() == "200 a"
    assert guests["b"].who() == "200 b"
    document = guests["a"].ask("/metadata/scheduledevents?api-version=2020-07-01")
    assert document == '200 {"DocumentIncarnation":1,"Events":[]}'
    assert guests["c"].who().startswith("404"), "it is in no fleet"
    forge_and_be_caught(world, guests["b"])
    assert guests["b"].who() == "200 b"
    # An interface outside the plan gets no response, regardless of its address.
    assert guests["d"].who(seconds=SILENCE_SECONDS).startswith("none")
    guests["d"].ip("address add 10.9.0.1/32 dev eth0")
    for name in ("all", "tap-d"):
        world.host.set_sysctl(f"ipv4/conf/{name}/rp_filter", "0")
    for at in (SERVICE, f"{SERVICE}:8080"):
        answer = guests["d"].who(source="10.9.0.1", at=at, seconds=SILENCE_SECONDS)
        assert answer.startswith("none")
    for name in ("all", "tap-d"):
        world.host.set_sysctl(f"ipv4/conf/{name}/rp_filter", "1")
    # The listener is reached by no other way either, on any address of the host.
    world.host.ip("address add 10.9.0.99/32 dev lo")
    for asker, at in (
        (guests["a"], "10.9.0.99:8080"),
        (guests["a"], f"{SERVICE}:8080"),
        (world.host, f"{SERVICE}:8080"),
    ):
        assert asker.who(at=at, seconds=SILENCE_SECONDS).startswith("none")
    world.host.ip("address del 10.9.0.99/32 dev lo")
    applied = world.host.state()
    world.forewarn("apply", *world.fleet)
    without = str.maketrans("", "", "0123456789")  # the counters start again
    assert world.host.state().translate(without) == applied.translate(without)
    assert guests["a"].who() == "200 a"
    world.forewarn("undo")
    assert world.host.state() == before
    assert guests["a"].who(seconds=SILENCE_SECONDS).startswith("none")


def test_guests_with_one_address_have_separate_listeners(world: World) -> None:
    guests = {name: world.routed_guest(name, "10.9.0.1") for name in "ab"}
    vm = '[[vm]]\nname = "{0}"\nhost = "h1"\nlisten = "169.254.169.254:{1}"\n'
    world.write(
        "fleet.toml",
        '[[host]]\nname = "h1"\n' + vm.format("a", 8301) + vm.format("b", 8302),
    )
    port = '[[port]]\nvm = "{0}"\ninterface = "tap-{0}"\n'
    world.write(
        "addresses.toml", 'way = "listener"\n' + port.format("a") + port.format("b")
    )
    before = world.host.state()
    world.forewarn("apply", *world.fleet)
    world.serve()
    # The same address and the same port on both sides.
    assert guests["a"].who(source="10.9.0.1", port=40_000) == "200 a"
    assert guests["b"].who(source="10.9.0.1", port=40_000) == "200 b"
    answer = guests["b"].who(at=f"{SERVICE}:8301", seconds=SILENCE_SECONDS)
    assert answer.startswith("none"), "a listener is not chosen by the guest"
    world.forewarn("undo")
    assert world.host.state() == before


def bridged(world: World) -> dict[str, Namespace]:
    """Make a bridge without an address, whose guests' router is elsewhere."""
    world.host.ip("link add br0 type bridge")
    world.host.ip("link set br0 up")
    guests = {name: world.guest(name, bridge="br0") for name in "abd"}
    router = world.guest("router", bridge="br0")
    router.ip("address add 10.9.0.254/24 dev eth0")
    for number, name in enumerate("abd", start=1):
        guests[name].ip(f"address add 10.9.0.{number}/24 dev eth0")
        guests[name].ip("route add default via 10.9.0.254")
    guests["b"].ip("link set eth0 address 52:54:00:00:00:0b")
    return guests | {"router": router}


BRIDGED = """
[[port]]
vm = "a"
interface = "tap-a"
bridge = "br0"
[[port]]
vm = "b"
interface = "tap-b"
bridge = "br0"
mac = "52:54:00:00:00:0b"
"""


@pytest.mark.parametrize("calls_iptables", some(["0", "1"], usual=["1"]))
def test_bridged_guests_are_identified_by_port(
    world: World, calls_iptables: str
) -> None:
    guests = bridged(world)
    if Path("/proc/sys/net/bridge").exists():
        # As Docker and Kubernetes set it.
        world.host.set_sysctl("bridge/bridge-nf-call-iptables", calls_iptables)
    elif calls_iptables == "1":
        pytest.skip("needs the kernel's module br_netfilter")
    world.write("fleet.toml", FLEET)
    world.write("addresses.toml", BRIDGED)
    before = world.host.state()
    world.forewarn("apply", *world.fleet)
    world.serve("0.0.0.0:8080")
    # By way of their router's MAC, which is not the host's.
    assert guests["a"].who() == "200 a"
    assert guests["b"].who() == "200 b"
    # By a route of their own, as cloud-init makes it.
    guests["a"].ip(f"route add {SERVICE}/32 dev eth0")
    assert guests["a"].who() == "200 a"
    forge_and_be_caught(world, guests["b"])
    # A port that is in no plan, and the network behind the uplink.
    for name in ("d", "router"):
        guests[name].ip("address add 10.9.0.1/32 dev eth0")
        guests[name].ip(f"route add {SERVICE}/32 dev eth0")
        for at in (SERVICE, f"{SERVICE}:8080"):
            answer = guests[name].who(source="10.9.0.1", at=at, seconds=SILENCE_SECONDS)
            assert answer.startswith("none")
        guests[name].ip("address del 10.9.0.1/32 dev eth0")
    # The host filters packets that the bridge does not see.
    unknown_callers = world.unknown_callers()
    guests["b"].send_syn("10.9.0.1", 8080, world.host.mac("br0"))
    eventually(world.unknown_callers, lambda count: count == unknown_callers + 1)
    # A guest that captures the return path of another gets none of its responses.
    guests["b"].run(
        "nft",
        "add table inet seen; add counter inet seen answers; add chain inet seen in "
        "{ type filter hook prerouting priority 0; }; "
        f"add rule inet seen in ip saddr {SERVICE} ip daddr 10.9.0.1 "
        "counter name answers",
    )
    world.host.ip(f"neigh replace 10.9.0.1 lladdr {guests['b'].mac()} dev br0")
    assert guests["a"].who(seconds=SILENCE_SECONDS).startswith("none")
    assert guests["b"].counted("seen", "answers") == 0
    world.host.ip(f"neigh replace 10.9.0.1 lladdr {guests['a'].mac()} dev br0")
    # Other traffic is not touched.
    refused = "none [Errno 111] Connection refused"
    assert guests["b"].ask("/", at="10.9.0.254") == refused
    # All packets of an interface that takes the MAC address of another guest are dropped.
    guests["b"].ip(f"link set eth0 address {guests['a'].mac()}")
    forged = world.guests()["b"]["forged"]
    assert guests["b"].who(seconds=SILENCE_SECONDS).startswith("none")
    assert world.guests()["b"]["forged"] > forged
    assert guests["a"].who() == "200 a"
    world.forewarn("undo")
    assert world.host.state() == before
