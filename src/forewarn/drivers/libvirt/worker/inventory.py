"""The hosts and VMs of some libvirts, as an inventory of forewarn."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any
from xml.etree import ElementTree as ET

from .hosts import within
from .orders import UnreachableError

HostInventory = tuple[dict[str, Any], list[tuple[dict[str, Any], bool]]]
"""A host, and its VMs with whether each runs there."""

HOSTS_AT_ONCE = 20
"""Maximum libvirts that are asked at once: `ssh` starts a process for each."""

LEASE = 0
"""VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE."""


def discover(api: Any, uris: list[str], *, seconds: float) -> dict[str, Any]:
    """Return the inventory; raises UnreachableError if a host does not tell all.

    A part of it would look as if the other hosts and VMs were gone.
    """
    # A libvirt that hangs is waited for in its thread, which ends with the process.
    pool = ThreadPoolExecutor(HOSTS_AT_ONCE)
    inventories = [pool.submit(_asked, api, uri, seconds) for uri in uris]
    return merged(uris, [each.result() for each in inventories])


def _asked(api: Any, uri: str, seconds: float) -> HostInventory:
    try:
        return within(seconds, lambda: _host(api, uri), name=uri)
    except TimeoutError:
        raise UnreachableError(f"{uri} did not answer within {seconds:g} s") from None
    except api.libvirtError as error:
        raise UnreachableError(f"{uri}: {error}") from None


def merged(uris: list[str], inventories: list[HostInventory]) -> dict[str, Any]:
    """Return the inventory of all hosts, sorted by name; raises UnreachableError."""
    hosts: dict[str, dict[str, Any]] = {}
    vms: dict[str, dict[str, Any]] = {}
    running: set[str] = set()
    for uri, (host, domains) in zip(uris, inventories):
        if host["name"] in hosts:
            raise UnreachableError(
                f"{uri}: another libvirt has the hostname {host['name']} too; each host "
                "needs a name of its own"
            )
        hosts[host["name"]] = host
        for vm, is_active in domains:
            name = vm["name"]
            if is_active and name in running:
                raise UnreachableError(
                    f"{name} runs on {vms[name]['host']} and on {vm['host']}; rename one "
                    "of the two domains"
                )
            # The definition of a VM can be on several hosts; it runs on one.
            if is_active or name not in vms:
                vms[name] = vm
            if is_active:
                running.add(name)
    return {
        "hosts": [hosts[name] for name in sorted(hosts)],
        "vms": [vms[name] for name in sorted(vms)],
    }


def _host(api: Any, uri: str) -> HostInventory:
    conn = api.open(uri)
    try:
        _, mebibytes, vcpu = conn.getInfo()[:3]
        name = str(conn.getHostname())
        host = {"name": name, "vcpu": vcpu, "memory": mebibytes}
        fixed = _fixed_addresses(api, conn)
        vms: list[tuple[dict[str, Any], bool]] = []
        for domain in conn.listAllDomains(0):
            vm, is_active = _vm(api, domain, fixed)
            vms.append(({**vm, "host": name}, is_active))
        return host, vms
    finally:
        conn.close()


def _vm(api: Any, domain: Any, fixed: dict[str, str]) -> tuple[dict[str, Any], bool]:
    is_active = bool(domain.isActive())
    _, kibibytes, _, vcpu = domain.info()[:4]
    vm: dict[str, Any] = {
        "name": str(domain.name()),
        "vcpu": vcpu,
        "memory": kibibytes >> 10,
    }
    addresses = addresses_in(domain.XMLDesc(0), fixed)
    if not addresses and is_active:
        addresses = _leased(api, domain)
    if addresses:
        vm["address"] = addresses[0] if len(addresses) == 1 else addresses
    return vm, is_active


def addresses_in(xml: str, fixed: dict[str, str]) -> list[str]:
    """Return the addresses that a definition gives to its interfaces.

    `fixed` has the addresses that networks give to MAC addresses.
    """
    addresses: set[str] = set()
    for interface in ET.fromstring(xml).findall("./devices/interface"):  # noqa: S314
        addresses.update(
            value
            for each in interface.findall("./filterref/parameter[@name='IP']")
            if (value := each.get("value"))
        )
        addresses.update(
            value
            for each in interface.findall("./ip")
            if (value := each.get("address"))
        )
        mac = interface.find("./mac")
        address = "" if mac is None else mac.get("address", "").lower()
        if address in fixed:
            addresses.add(fixed[address])
    return sorted(addresses)


def hosts_in(xml: str) -> dict[str, str]:
    """Return the addresses that a network gives to MAC addresses."""
    return {
        mac.lower(): ip
        for each in ET.fromstring(xml).findall("./ip/dhcp/host")  # noqa: S314
        if (mac := each.get("mac")) and (ip := each.get("ip"))
    }


def _fixed_addresses(api: Any, conn: Any) -> dict[str, str]:
    addresses: dict[str, str] = {}
    try:
        for network in conn.listAllNetworks(0):
            addresses.update(hosts_in(network.XMLDesc(0)))
    except api.libvirtError:
        # A libvirt can have no driver for networks.
        return {}
    return addresses


def _leased(api: Any, domain: Any) -> list[str]:
    try:
        interfaces = domain.interfaceAddresses(LEASE, 0)
    except api.libvirtError:
        return []
    return sorted(
        each["addr"] for leased in interfaces.values() for each in leased["addrs"] or ()
    )
