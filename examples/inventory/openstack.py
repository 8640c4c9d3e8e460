#!/usr/bin/env python3
"""Print the hypervisors and servers of OpenStack as an inventory of forewarn.

The name of a VM is the ID of its server, because names of servers need not be unique.
Servers that are off are listed too: forewarn can have stopped them for work on their
hypervisor. Servers without a hypervisor, such as shelved ones, are not.
Settings: /etc/forewarn/openstack.json, with `keystone` (https://…:5000/v3) and the `id` and
`secret` of an application credential that can list the servers of all projects.
"""

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1] if len(sys.argv) > 1 else "/etc/forewarn/openstack.json")
SETTINGS: dict[str, Any] = json.loads(FILE.read_text())
VERSION = "compute 2.47"
"""The first version in which a server has its vCPUs and memory."""


def exchange(url: str, headers: dict[str, str], body: object = None) -> tuple[Any, Any]:
    """Return the headers and the document of a response."""
    data = json.dumps(body).encode() if body else None
    headers = {**headers, "Content-Type": "application/json"}
    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers, json.load(answer)


credential = {"id": SETTINGS["id"], "secret": SETTINGS["secret"]}
method = {"methods": ["application_credential"], "application_credential": credential}
answered, login = exchange(
    f"{SETTINGS['keystone']}/auth/tokens", {}, {"auth": {"identity": method}}
)
nova = next(
    endpoint["url"]
    for service in login["token"]["catalog"]
    if service["type"] == "compute"
    for endpoint in service["endpoints"]
    if endpoint["interface"] == "public"
)
HEADERS = {
    "X-Auth-Token": answered["X-Subject-Token"],
    "OpenStack-API-Version": VERSION,
}


def every(path: str, member: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of all pages."""
    url: str | None = f"{nova}/{path}"
    while url:
        _, page = exchange(url, HEADERS)
        yield from page[member]
        links = page.get(f"{member}_links", [])
        url = next((link["href"] for link in links if link["rel"] == "next"), None)


hosts = [
    {
        "name": row["hypervisor_hostname"],
        "vcpu": row["vcpus"] * SETTINGS.get("overcommitment", 1),
        "memory": row["memory_mb"],
    }
    for row in every("os-hypervisors/detail", "hypervisors")
]
vms = [
    {
        "name": row["id"],
        "wire_name": row["name"],
        "id": row["id"],
        "host": row["OS-EXT-SRV-ATTR:hypervisor_hostname"],
        "vcpu": row["flavor"]["vcpus"],
        "memory": row["flavor"]["ram"],
        "address": [
            port["addr"]
            for ports in row["addresses"].values()
            for port in ports
            if port["OS-EXT-IPS:type"] == "fixed"
        ],
    }
    for row in every("servers/detail?all_tenants=1", "servers")
    if row["OS-EXT-SRV-ATTR:hypervisor_hostname"]
]
print(json.dumps({"hosts": hosts, "vms": vms}))
