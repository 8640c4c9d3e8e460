"""Finding the endpoint by DHCP: real servers and clients between network namespaces.

A VM without 169.254.169.254 is on a network whose dnsmasq names the endpoint in option
245.
"""

import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.namespaces import Space, no_namespaces, run
from tests.support.processes import PATIENCE_SECONDS, eventually
from tests.support.profiles import some
from tests.support.unpacked import environment, find, needs

pytestmark = [
    pytest.mark.real,
    pytest.mark.system,
    pytest.mark.slow,
    pytest.mark.clause("8.2"),
]

SERVER = "10.7.0.1"

ENDPOINT = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        is_name = self.path.startswith("/metadata/instance")
        body = b'{"DocumentIncarnation":1,"Events":[]}'
        body = b'{"compute":{"name":"web_0"}}' if is_name else body
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
place = (sys.argv[1], int(sys.argv[2]))
http.server.ThreadingHTTPServer(place, Handler).serve_forever()
"""

SETTINGS = """
state = "agent.db"
listen = ""
poll = "100ms"
observe = true
first_timeout = "2s"
"""


class World:
    """A network with a server, and a VM in it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        prefix = f"fw{os.getpid()}"
        self.net = Space(f"{prefix}-net")
        self.vm = Space(f"{prefix}-vm")

    def begin(self) -> None:
        for space in (self.net, self.vm):
            space.begin()
        self.net.ip(f"link add lan type veth peer name eth0 netns {self.vm.name}")
        self.net.ip(f"address add {SERVER}/24 dev lan")
        self.net.ip("link set lan up")
        self.vm.ip("link set eth0 up")
        (self.directory / "agent.toml").write_text(SETTINGS)

    def configure(self) -> None:
        """Give the VM an address, as by a client that notes nothing."""
        self.vm.ip("address add 10.7.0.2/24 dev eth0")
        self.vm.ip(f"route add default via {SERVER}")
        # Said at once, where another network would say nothing for seconds.
        self.vm.ip("route add unreachable 169.254.169.254")

    def end(self) -> None:
        for space in (self.net, self.vm):
            space.end()

    @contextmanager
    def running(
        self, space: Space, *words: str, log: str = "log", real: str = ""
    ) -> "Generator[subprocess.Popen[bytes]]":
        """Have a program run in there for as long as the block takes.

        `real` is what it runs of the programs that may only be unpacked.
        """
        with (self.directory / log).open("wb") as output:
            process = subprocess.Popen(
                space.words(*words),
                cwd=self.directory,
                env={**os.environ, **environment(real)} if real else None,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)

    @contextmanager
    def dnsmasq(self, *more: str) -> Generator[None]:
        """Have a DHCP server."""
        arguments = (
            *(
                find("dnsmasq"),
                "--keep-in-foreground",
                "--conf-file=/dev/null",
                "--port=0",
            ),
            *("--interface=lan", "--bind-interfaces", "--user=root", "--no-ping"),
            *("--pid-file", "--log-dhcp", "--log-facility=-"),
            f"--dhcp-leasefile={self.directory}/dnsmasq.leases",
            *("--dhcp-range=10.7.0.100,10.7.0.150,255.255.255.0", *more),
        )
        with self.running(self.net, *arguments, log="dnsmasq.log", real="dnsmasq"):
            self.wait_log("dnsmasq.log", "started")
            yield

    @contextmanager
    def endpoint(self, port: int) -> Generator[None]:
        """Have an endpoint at a port of the server."""
        arguments = (sys.executable, "-I", "-c", ENDPOINT, SERVER, str(port))
        with self.running(self.net, *arguments, log="endpoint.log"):
            eventually(
                lambda: self.net.run("sh", "-c", "cat /proc/net/tcp"),
                lambda table: f":{port:04X} " in table,
                what="a listener",
            )
            yield

    def log(self, name: str) -> str:
        return (self.directory / name).read_text(encoding="utf-8")

    def wait_log(self, name: str, text: str) -> str:
        return eventually(lambda: self.log(name), lambda log: text in log, what=text)

    def check(self, *before: str, real: str = "") -> str:
        """Return what `agent check` prints in the VM; `real` is what it runs."""
        done = subprocess.run(
            self.vm.words(
                *before,
                *(sys.executable, "-m", "forewarn.agent", "check"),
                *("--config", "agent.toml"),
            ),
            cwd=self.directory,
            env={**os.environ, **environment(real)} if real else None,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        return done.stdout + done.stderr


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    if why := needs("dnsmasq") or no_namespaces():
        pytest.skip(why)
    world = World(tmp_path)
    try:
        world.begin()
        yield world
    finally:
        world.end()


def test_network_is_queried_if_no_lease_names_the_endpoint(world: World) -> None:
    world.configure()
    with world.dnsmasq(f"--dhcp-option=245,{SERVER}"):
        with world.endpoint(8080):
            problems = world.check()
        assert f"ok   dhcp: DHCP option 245 on eth0 names {SERVER}\n" in problems
        assert f"ok   endpoint: http://{SERVER}:8080 answers with version" in problems
        assert "ok   name: web_0, by the endpoint" in problems
        arguments = (sys.executable, "-m", "forewarn.agent", "--config", "agent.toml")
        with world.endpoint(80), world.running(world.vm, *arguments):
            world.wait_log("log", f"the endpoint at http://{SERVER} answers")
    # It was offered an address, and has taken none.
    assert "DHCPOFFER" in world.log("dnsmasq.log")
    assert "DHCPREQUEST" not in world.log("dnsmasq.log")
    assert (world.directory / "dnsmasq.leases").read_text() == ""


OLD = """
lease {
  interface "eth0";
  option unknown-245 a:7:0:9;
  expire EXPIRE;
}
"""


@pytest.mark.parametrize(
    "expire", some(["2 2019/01/01 09:00:00", "never"], usual=["2 2019/01/01 09:00:00"])
)
def test_old_lease_does_not_hide_the_network(expire: str, world: World) -> None:
    """It is of the network in which the machine's image was made."""
    world.configure()
    # Said at once, as of the fixed address.
    world.vm.ip("route add unreachable 10.7.0.9")
    (world.directory / "old").write_text(OLD.replace("EXPIRE", expire))
    script = (
        "mount -t tmpfs none /var/lib && mount -t tmpfs none /run && "
        'mkdir /var/lib/dhcp && mv old /var/lib/dhcp/dhclient.leases && exec "$@"'
    )
    private = ("unshare", "--mount", "sh", "-c", script, "sh")
    dead = "http://10.7.0.9"
    arguments = (sys.executable, "-m", "forewarn.agent", "--config", "agent.toml")
    with world.dnsmasq(f"--dhcp-option=245,{SERVER}"), world.endpoint(80):
        with world.running(world.vm, *private, *arguments):
            world.wait_log("log", f"DHCP option 245 on eth0 names {SERVER}")
            world.wait_log("log", f"the endpoint at http://{SERVER} answers")
        (world.directory / "old").write_text(OLD.replace("EXPIRE", expire))
        problems = world.check(*private)
    assert f"ok   dhcp: DHCP option 245 on eth0 names {SERVER}\n" in problems
    assert f"ok   endpoint: http://{SERVER} answers with version" in problems
    assert dead not in problems


def test_missing_endpoint_and_missing_rights_are_reported(world: World) -> None:
    world.configure()
    with world.dnsmasq():
        problems = world.check()
        assert f"BAD  dhcp: DHCP on eth0: {SERVER} names no endpoint\n" in problems
        assert "BAD  endpoint: http://169.254.169.254 returned no document" in problems
        dropped = ("setpriv", "--bounding-set=-net_bind_service,-net_raw")
        problems = world.check(*dropped)
        assert (
            "BAD  dhcp: no DHCP request on eth0: that needs root, or "
            "CAP_NET_BIND_SERVICE and CAP_NET_RAW\n"
        ) in problems
        (world.directory / "agent.toml").write_text(f"dhcp = false\n{SETTINGS}")
        assert "dhcp:" not in world.check()


READ = """
from forewarn.agent.wire import discovery
from forewarn.clock import SystemClock
print(*discovery.addresses(SystemClock().now()))
"""

NETWORKD = "/lib/systemd/systemd-networkd"

# Each has /var/lib and /run to itself, and says "bound" when it has its lease.
CLIENTS = {
    "dhclient": """
        printf '#!/bin/sh\\n' >script; chmod +x script; mkdir /var/lib/dhcp
        touch /var/lib/dhcp/dhclient.eth0.leases dhclient.conf
        exec dhclient -d -4 -cf dhclient.conf -pf dhclient.pid -sf "$PWD/script" \
            -lf /var/lib/dhcp/dhclient.eth0.leases eth0
    """,
    "dhcpcd": """
        mkdir /var/lib/dhcpcd
        exec dhcpcd --nobackground --ipv4only --noarp --config /dev/null \
            --script /bin/true eth0
    """,
    NETWORKD: """
        # It waits for udev where it could be there.
        mount -o remount,ro /sys
        mkdir -p /run/systemd/network /run/systemd/netif/leases \
            /run/systemd/netif/links /run/systemd/netif/lldp
        chown -R systemd-network: /run/systemd/netif
        printf '[Match]\\nName=eth0\\n[Network]\\nDHCP=ipv4\\n' \
            >/run/systemd/network/10-eth0.network
        exec /lib/systemd/systemd-networkd
    """,
}
SAYS = {
    "dhclient": "bound to",
    "dhcpcd": "leased ",
    NETWORKD: "acquired from",
}


@pytest.mark.parametrize("client", CLIENTS, ids=["dhclient", "dhcpcd", "networkd"])
def test_lease_of_a_dhcp_client_is_read(client: str, world: World) -> None:
    """No request is sent by the agent: the lease is there while the client runs."""
    if why := needs(client):
        pytest.skip(why)
    private = "mount -t tmpfs none /var/lib && mount -t tmpfs none /run && "
    script = f"{private}{{ {CLIENTS[client]} }}"
    command = ("unshare", "--mount", "sh", "-c", script)
    with (
        world.dnsmasq(f"--dhcp-option-force=245,{SERVER}"),
        world.running(world.vm, *command, log="client.log", real=client) as process,
    ):
        world.wait_log("client.log", SAYS[client])
        # Its files are on a mount that only it sees.
        inside = ("nsenter", f"--mount=/proc/{process.pid}/ns/mnt")
        read = (sys.executable, "-c", READ)
        eventually(
            lambda: run(*inside, *read).strip(),
            lambda found: found == SERVER,
            what="the address",
        )


# It has a bus, a hostname, /var/lib and /run to itself, and ends with all it began.
NETWORKMANAGER = """
mount -t tmpfs none /var/lib
mount -t tmpfs none /run
# It waits for udev where it could be there.
mount -o remount,ro /sys
mkdir -p /run/dbus /run/nm/connections
cat >/run/nm/bus.conf <<END
<busconfig>
  <type>system</type>
  <listen>unix:path=/run/dbus/system_bus_socket</listen>
  <auth>EXTERNAL</auth>
  <policy context="default">
    <allow own="*"/>
    <allow send_destination="*"/>
    <allow receive_sender="*"/>
  </policy>
</busconfig>
END
cat >/run/nm/NetworkManager.conf <<END
[main]
plugins=keyfile
auth-polkit=false
dhcp=internal
dns=none
hostname-mode=none
rc-manager=unmanaged
[keyfile]
path=/run/nm/connections
END
cat >/run/nm/connections/lan.nmconnection <<END
[connection]
id=lan
type=ethernet
interface-name=eth0
[ipv4]
method=auto
[ipv6]
method=disabled
END
chmod 600 /run/nm/connections/lan.nmconnection
dbus-daemon --config-file=/run/nm/bus.conf --nofork --nopidfile &
bus=$!
until [ -S /run/dbus/system_bus_socket ]; do sleep 0.1; done
NetworkManager --no-daemon --config=/run/nm/NetworkManager.conf \
    --config-dir=/run/nm/conf.d &
trap 'kill $! $bus; wait; exit' TERM
wait
"""


def test_networkmanager_supplies_the_option_without_a_lease_file(world: World) -> None:
    if why := needs("NetworkManager", "nmcli", "dbus-daemon"):
        pytest.skip(why)
    # Only it can tell.
    (world.directory / "agent.toml").write_text(f"dhcp = false\n{SETTINGS}")
    world.vm.ip("route add unreachable 169.254.169.254")
    command = ("unshare", "--mount", "--uts", "sh", "-c", NETWORKMANAGER)
    with (
        world.endpoint(80),
        world.dnsmasq(f"--dhcp-option-force=245,{SERVER}"),
        world.running(
            world.vm, *command, log="client.log", real="NetworkManager"
        ) as process,
    ):
        inside = ("nsenter", f"--mount=/proc/{process.pid}/ns/mnt")
        inside += ("env", f"--chdir={world.directory}")
        message = eventually(
            lambda: world.check(*inside, real="nmcli"),
            lambda told: "option 245" in told,
            what="the address",
        )
    assert (
        f"ok   dhcp: NetworkManager says that DHCP option 245 names {SERVER}\n"
        in message
    )
    assert f"ok   endpoint: http://{SERVER} answers with version" in message
