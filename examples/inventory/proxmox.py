#!/usr/bin/env python3
"""Print the nodes and VMs of a Proxmox cluster as an inventory of forewarn.

VMs that are off are listed too: forewarn can have stopped them for work on their node.
Nodes that are offline, and their VMs, stay as forewarn knows them.
The address of a VM is that of its cloud-init drive (`ipconfig0`). A VM without one has no
address. Settings: /etc/forewarn/proxmox.json, with `url` (https://pve1:8006) and `token`
(USER@REALM!ID=SECRET) with the role PVEAuditor, and `ca_file` for the cluster's authority.
"""

import json
import ssl
import sys
import urllib.request
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1] if len(sys.argv) > 1 else "/etc/forewarn/proxmox.json")
SETTINGS: dict[str, Any] = json.loads(FILE.read_text())
TLS = ssl.create_default_context(cafile=SETTINGS.get("ca_file"))
MIB = 1 << 20


def get(path: str) -> Any:
    """Return the data of one request."""
    headers = {"Authorization": f"PVEAPIToken={SETTINGS['token']}"}
    url = f"{SETTINGS['url']}/api2/json/{path}"
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=30, context=TLS) as answer:
        return json.load(answer)["data"]


def address(vm: dict[str, Any]) -> str | None:
    """Return the fixed IPv4 address of a VM, if its cloud-init drive has one."""
    config = get(f"nodes/{vm['node']}/qemu/{vm['vmid']}/config")
    for part in config.get("ipconfig0", "").split(","):
        key, _, value = part.partition("=")
        if key == "ip" and value != "dhcp":
            return value.split("/")[0]
    return None


resources = get("cluster/resources")
offline = [
    resource["node"]
    for resource in resources
    if resource["type"] == "node" and resource["status"] == "offline"
]
hosts = [
    {
        "name": resource["node"],
        "vcpu": resource.get("maxcpu"),
        "memory": resource.get("maxmem") and resource["maxmem"] // MIB,
    }
    for resource in resources
    if resource["type"] == "node" and resource["node"] not in offline
]
vms = [
    {
        "name": resource["name"],
        "host": resource["node"],
        "vcpu": resource["maxcpu"],
        "memory": resource["maxmem"] // MIB,
        "address": address(resource),
    }
    for resource in resources
    if resource["type"] == "qemu"
    and resource["node"] not in offline
    and not resource.get("template")
]
print(json.dumps({"hosts": hosts, "vms": vms, "unknown_hosts": offline}))
