"""The example inventories, on fakes of the APIs with the shapes of their documentation."""

import json
import subprocess
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, ClassVar

import pytest

from forewarn.fleet.inventory import fleet_file, read_inventory
from tests.support.loopback import Quiet, answering

pytestmark = [pytest.mark.system, pytest.mark.slow]

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "inventory"
MIB = 1 << 20


class Fake(Quiet, BaseHTTPRequestHandler):
    """Answers the known paths to callers with the secret, and nothing else."""

    protocol_version = "HTTP/1.1"
    pages: ClassVar[Mapping[str, Any]] = {}
    secret: ClassVar[tuple[str, str]] = ("", "")

    def do_GET(self) -> None:
        header, value = self.secret
        page = self.pages.get(self.path)
        if self.headers.get(header) != value:
            self.say(401, {"detail": "no valid token"})
        else:
            self.say(404 if page is None else 200, self.here(page))

    def do_POST(self) -> None:
        """Return a token, as Keystone does."""
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        identity = body["auth"]["identity"]
        assert identity["methods"] == ["application_credential"]
        known = identity["application_credential"] == {"id": "i", "secret": "s"}
        self.say(201 if known else 401, self.here(self.pages[self.path]), issued="tk")

    def here(self, page: Any) -> Any:
        """Return a page with links to this server."""
        url = f"http://{self.headers['Host']}"
        return json.loads(json.dumps(page).replace("http://self", url))

    def say(self, status: int, page: Any, *, issued: str = "") -> None:
        data = json.dumps(page).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if issued:
            self.send_header("X-Subject-Token", issued)
        self.end_headers()
        self.wfile.write(data)


DEVICES = "/api/dcim/devices/?role=hypervisor&status=active&limit=500"
MACHINES = "/api/virtualization/virtual-machines/?status=active&limit=500"
SITE = {"id": 1, "name": "ams1", "slug": "ams1", "display": "ams1"}
RACK = {"id": 7, "name": "r7", "display": "r7"}
CLUSTER = {"id": 3, "name": "c1", "display": "c1"}


def machine(name: str, **values: Any) -> dict[str, Any]:
    """Return a VM as NetBox writes it."""
    usual = {
        "id": 1,
        "name": name,
        "status": {"value": "active", "label": "Active"},
        "cluster": CLUSTER,
        "device": {"id": 1, "name": "h1", "display": "h1"},
        "vcpus": 4.0,
        "memory": 16384,
        "primary_ip4": {"id": 5, "family": 4, "address": "192.0.2.4/24"},
        "primary_ip6": None,
    }
    return {**usual, **values}


NETBOX = {
    DEVICES: {
        "count": 2,
        "next": f"http://self{DEVICES}&offset=500",
        "previous": None,
        "results": [
            {"id": 1, "name": "h1", "site": SITE, "rack": RACK, "cluster": CLUSTER}
        ],
    },
    f"{DEVICES}&offset=500": {
        "count": 2,
        "next": None,
        "previous": f"http://self{DEVICES}",
        "results": [
            {"id": 2, "name": "h2", "site": SITE, "rack": None, "cluster": None}
        ],
    },
    MACHINES: {
        "count": 4,
        "next": None,
        "previous": None,
        "results": [
            machine("web_0"),
            machine(
                "db_0",
                device={"id": 2, "name": "h2", "display": "h2"},
                vcpus=None,
                memory=None,
                primary_ip6={"id": 6, "family": 6, "address": "2001:db8::5/64"},
                primary_ip4={"id": 5, "family": 4, "address": "192.0.2.5/24"},
            ),
            machine("elsewhere", device={"id": 9, "name": "old", "display": "old"}),
            machine("unpinned", device=None),
        ],
    },
}

GIB = 1 << 30
PROXMOX = {
    "/api2/json/cluster/resources": {
        "data": [
            {
                "id": "node/h1",
                "type": "node",
                "node": "h1",
                "status": "online",
                "maxcpu": 64,
                "maxmem": 512 * GIB,
                "cpu": 0.1,
                "mem": 3,
            },
            {"id": "node/h2", "type": "node", "node": "h2", "status": "offline"},
            {"id": "storage/h1/local", "type": "storage", "node": "h1"},
            *(
                {
                    "id": f"qemu/{vmid}",
                    "type": "qemu",
                    "node": node,
                    "vmid": vmid,
                    "name": name,
                    "status": status,
                    "maxcpu": 4,
                    "maxmem": 16 * GIB,
                    "template": template,
                }
                for vmid, name, node, status, template in (
                    (100, "web_0", "h1", "running", 0),
                    (101, "dynamic", "h1", "running", 0),
                    (102, "plain", "h1", "running", 0),
                    (103, "off", "h1", "stopped", 0),
                    (104, "golden", "h1", "stopped", 1),
                    (105, "lost", "h2", "unknown", 0),
                )
            ),
        ]
    },
    "/api2/json/nodes/h1/qemu/100/config": {
        "data": {"ipconfig0": "gw=192.0.2.1,ip=192.0.2.4/24", "cores": 4}
    },
    "/api2/json/nodes/h1/qemu/101/config": {"data": {"ipconfig0": "ip=dhcp"}},
    "/api2/json/nodes/h1/qemu/102/config": {"data": {"cores": 4}},
    "/api2/json/nodes/h1/qemu/103/config": {"data": {"ipconfig0": "ip=192.0.2.6/24"}},
}

SHELVED = "5f7f4a0e-7f0e-4b6b-9a53-0e1f7b6d9c55"
WEB, DB = "9168b536-cd40-4630-b43f-b259807c6e87", "1b0fe0f4-1f8c-4f7e-9d0a-3f8b2d6f6d11"
SERVERS = "/v2.1/servers/detail?all_tenants=1"


def server(
    name: str, key: str, host: str | None, *ports: tuple[str, str]
) -> dict[str, Any]:
    """Return a server as Nova 2.47 writes it."""
    return {
        "id": key,
        "name": name,
        "status": "ACTIVE" if name == "web" else "SHUTOFF",
        "OS-EXT-SRV-ATTR:hypervisor_hostname": host,
        "addresses": {
            "private": [
                {"addr": addr, "version": 4, "OS-EXT-IPS:type": kind}
                for addr, kind in ports
            ]
        },
        "flavor": {"vcpus": 4, "ram": 16384, "disk": 20, "original_name": "m1.large"},
    }


OPENSTACK = {
    "/v3/auth/tokens": {
        "token": {
            "catalog": [
                {"type": "identity", "endpoints": []},
                {
                    "type": "compute",
                    "name": "nova",
                    "endpoints": [
                        {"interface": "internal", "url": "http://192.0.2.9:1/v2.1"},
                        {"interface": "public", "url": "http://self/v2.1"},
                    ],
                },
            ]
        }
    },
    "/v2.1/os-hypervisors/detail": {
        "hypervisors": [
            {
                "id": 1,
                "hypervisor_hostname": "h1",
                "state": "up",
                "status": "enabled",
                "vcpus": 64,
                "memory_mb": 524288,
            },
            {
                "id": 2,
                "hypervisor_hostname": "h2",
                "state": "down",
                "status": "enabled",
                "vcpus": 64,
                "memory_mb": 524288,
            },
        ]
    },
    SERVERS: {
        "servers": [
            server(
                "web", WEB, "h1", ("192.0.2.4", "fixed"), ("198.51.100.4", "floating")
            )
        ],
        "servers_links": [
            {"rel": "next", "href": f"http://self{SERVERS}&marker={WEB}"}
        ],
    },
    f"{SERVERS}&marker={WEB}": {
        "servers": [
            server("db", DB, "h2", ("192.0.2.5", "fixed")),
            server("old", SHELVED, None),
        ]
    },
}


def run(
    name: str,
    directory: Path,
    fake: type[Fake],
    **settings: object,
) -> "subprocess.CompletedProcess[str]":
    """Run an example against the fake."""
    with answering(fake) as port:
        text = json.dumps(settings).replace("http://self", f"http://127.0.0.1:{port}")
        (directory / "settings.json").write_text(text)
        return subprocess.run(
            [
                sys.executable,
                "-I",
                str(EXAMPLES / name),
                str(directory / "settings.json"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


class NetBox(Fake):
    pages = NETBOX
    secret = ("Authorization", "Token secret")


class Proxmox(Fake):
    pages = PROXMOX
    secret = ("Authorization", "PVEAPIToken=forewarn@pve!i=secret")


class OpenStack(Fake):
    pages = OPENSTACK
    secret = ("X-Auth-Token", "tk")


def fleet(done: "subprocess.CompletedProcess[str]") -> str:
    assert (done.returncode, done.stderr) == (0, "")
    return fleet_file(read_inventory(done.stdout, name="example"))


def test_netbox_gives_places_and_every_page(tmp_path: Path) -> None:
    settings = {"url": "http://self", "token": "secret", "role": "hypervisor"}
    assert fleet(run("netbox.py", tmp_path, NetBox, **settings)) == (
        '[[host]]\nname = "h1"\nzone = "ams1"\ncluster = "c1"\nrack = "r7"\n\n'
        '[[host]]\nname = "h2"\nzone = "ams1"\n\n'
        '[[vm]]\nname = "db_0"\nhost = "h2"\n'
        'address = ["192.0.2.5", "2001:db8::5"]\n\n'
        '[[vm]]\nname = "web_0"\nhost = "h1"\nvcpu = 4\nmemory = "16GiB"\n'
        'address = "192.0.2.4"\n'
    )


def test_proxmox_gives_nodes_and_vms_that_are_on_or_off(tmp_path: Path) -> None:
    settings = {"url": "http://self", "token": "forewarn@pve!i=secret"}
    done = run("proxmox.py", tmp_path, Proxmox, **settings)
    assert read_inventory(done.stdout, name="x").unknown_hosts == ("h2",)
    assert fleet(done) == (
        '[[host]]\nname = "h1"\nvcpu = 64\nmemory = "512GiB"\n\n'
        '[[vm]]\nname = "dynamic"\nhost = "h1"\nvcpu = 4\nmemory = "16GiB"\n\n'
        '[[vm]]\nname = "off"\nhost = "h1"\nvcpu = 4\nmemory = "16GiB"\n'
        'address = "192.0.2.6"\n\n'
        '[[vm]]\nname = "plain"\nhost = "h1"\nvcpu = 4\nmemory = "16GiB"\n\n'
        '[[vm]]\nname = "web_0"\nhost = "h1"\nvcpu = 4\nmemory = "16GiB"\n'
        'address = "192.0.2.4"\n'
    )


def test_openstack_gives_servers_by_their_ids(tmp_path: Path) -> None:
    settings = {"keystone": "http://self/v3", "id": "i", "secret": "s"}
    done = run("openstack.py", tmp_path, OpenStack, **settings, overcommitment=4)
    wanted = read_inventory(done.stdout, name="example")
    assert {host.vcpu for host in wanted.hosts.values()} == {256}
    assert {host.memory for host in wanted.hosts.values()} == {524288}
    vms = {vm.name: (vm.wire_name, vm.host, vm.addresses) for vm in wanted.vms.values()}
    assert vms == {
        WEB: ("web", "h1", ("192.0.2.4",)),
        DB: ("db", "h2", ("192.0.2.5",)),
    }
    assert wanted.vms[WEB].vm_id == WEB


@pytest.mark.parametrize(
    ("name", "fake", "settings"),
    [
        ("netbox.py", NetBox, {"url": "http://self", "token": "x", "role": "a"}),
        ("proxmox.py", Proxmox, {"url": "http://self", "token": "x"}),
        (
            "openstack.py",
            OpenStack,
            {"keystone": "http://self/v3", "id": "i", "secret": "x"},
        ),
    ],
)
def test_a_refused_token_gives_no_inventory(
    name: str, fake: type[Fake], settings: Mapping[str, str], tmp_path: Path
) -> None:
    done = run(name, tmp_path, fake, **settings)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1].endswith("HTTP Error 401: Unauthorized")


def test_an_outage_in_the_middle_gives_no_inventory(tmp_path: Path) -> None:
    class Half(NetBox):
        pages: ClassVar[Mapping[str, Any]] = {DEVICES: NETBOX[DEVICES]}

    settings = {"url": "http://self", "token": "secret", "role": "hypervisor"}
    done = run("netbox.py", tmp_path, Half, **settings)
    assert (done.returncode, done.stdout) == (1, "")
