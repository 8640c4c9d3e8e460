#!/usr/bin/env python3
"""Print the hosts and VMs of NetBox as an inventory of forewarn.

A VM needs a device, the host that it runs on. Settings: /etc/forewarn/netbox.json, with
`url`, `token` and `role`, the slug of the role of your hypervisors.
"""

import json
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILE = Path(sys.argv[1] if len(sys.argv) > 1 else "/etc/forewarn/netbox.json")
SETTINGS: dict[str, Any] = json.loads(FILE.read_text())


def every(path: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of all pages."""
    url: str | None = f"{SETTINGS['url']}/api/{path}&limit=500"
    while url:
        headers = {"Authorization": f"Token {SETTINGS['token']}"}
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=30) as answer:
            page = json.load(answer)
        yield from page["results"]
        url = page["next"]


def name_of(nested: dict[str, str] | None) -> str | None:
    """Return the name of an object that another one refers to, if there is one."""
    return nested["name"] if nested else None


def addresses(vm: dict[str, Any]) -> list[str]:
    """Return the addresses of a VM without their prefix lengths."""
    found = (vm["primary_ip4"], vm["primary_ip6"])
    return [address["address"].split("/")[0] for address in found if address]


hosts = [
    {
        "name": row["name"],
        "zone": name_of(row["site"]),
        "rack": name_of(row["rack"]),
        "cluster": name_of(row["cluster"]),
    }
    for row in every(f"dcim/devices/?role={SETTINGS['role']}&status=active")
]
names = {row["name"] for row in hosts}
vms = [
    {
        "name": row["name"],
        "host": row["device"]["name"],
        "vcpu": row["vcpus"] and int(row["vcpus"]),
        "memory": row["memory"],
        "address": addresses(row),
    }
    for row in every("virtualization/virtual-machines/?status=active")
    if name_of(row["device"]) in names
]
print(json.dumps({"hosts": hosts, "vms": vms}))
