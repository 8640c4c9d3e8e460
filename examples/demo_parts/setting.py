"""The environment of the demo: a fleet, fast settings, and free ports on loopback."""

import socket
from dataclasses import dataclass
from pathlib import Path

FLEET = """\
[[tenant]]
name = "shop"

[[tenant]]
name = "bank"

[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"

[[scope]]
name = "db"
tenant = "bank"
kind = "availability-set"
"""

HOSTS = """
[[host]]
name = "{name}"
capacity = 4
"""

VM = """
[[vm]]
name = "{name}"
host = "{host}"
scope = "{scope}"
fault_domain = {fault_domain}
listen = "127.0.0.1:{port}"
"""

SETTINGS = """\
[metadata]
listen = ""                     # each VM has a listener of its own

[admin]
listen = "127.0.0.1:{admin_port}"

[store]
url = "sqlite:///{store}"

[timing]                        # seconds instead of minutes, to keep the demo short
freeze_notice = "12s"
reboot_notice = "12s"
recovery = "3s"

[driver.simulated]
freeze = "1s"
reboot = "1s"
"""

VMS = (
    ("web_0", "h1", "web", 0),
    ("db_0", "h1", "db", 0),
    ("web_1", "h2", "web", 1),
    ("db_1", "h2", "db", 1),
    ("web_2", "h3", "web", 2),
)


@dataclass(frozen=True)
class Places:
    """The addresses of the service."""

    admin_url: str
    vms: dict[str, int]
    """The port of each VM's listener."""


def prepare(directory: Path) -> Places:
    """Write the fleet file and the settings; return the addresses."""
    ports = free_ports(len(VMS) + 1)
    vms = {vm[0]: port for vm, port in zip(VMS, ports, strict=False)}
    fleet = FLEET + "".join(HOSTS.format(name=name) for name in ("h1", "h2", "h3"))
    fleet += "".join(
        VM.format(
            name=name,
            host=host,
            scope=scope,
            fault_domain=fault_domain,
            port=vms[name],
        )
        for name, host, scope, fault_domain in VMS
    )
    (directory / "fleet.toml").write_text(fleet)
    settings = SETTINGS.format(admin_port=ports[-1], store=directory / "demo.db")
    (directory / "forewarn.toml").write_text(settings)
    return Places(admin_url=f"http://127.0.0.1:{ports[-1]}", vms=vms)


def free_ports(count: int) -> list[int]:
    """Return free ports on loopback."""
    sockets = [socket.socket() for _ in range(count)]
    for socket_ in sockets:
        socket_.bind(("127.0.0.1", 0))
    ports = [socket_.getsockname()[1] for socket_ in sockets]
    for socket_ in sockets:
        socket_.close()
    return ports
