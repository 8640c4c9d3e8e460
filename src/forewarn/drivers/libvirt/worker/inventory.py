"""The hosts and VMs of some libvirts, as an inventory of forewarn."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar
from xml.etree import ElementTree as ET

from .hosts import NO_DOMAIN, within
from .orders import UnreachableError
from .states import HERE, guest_state

T = TypeVar("T")

HOSTS_AT_ONCE = 20
"""Maximum libvirts that are asked at once: `ssh` starts a process for each."""

ANSWER_SHARE = 1 / 6
"""Share of the time of an inventory that one libvirt has for one answer: a host that hangs
keeps one of HOSTS_AT_ONCE threads for so long, and the others need time too."""

PASSES_MAX = 3
"""Maximum times that the hosts are asked again because VMs moved while they were read: a VM
that moves each time is seen by the next inventory."""

LEASE = 0
"""VIR_DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE."""


@dataclass(frozen=True)
class HostInventory:
    """The host and the domains of one libvirt at one moment."""

    host: dict[str, Any]
    vms: list[dict[str, Any]]
    presences: dict[str, str]
    """How each of its domains has its VM, as in `states`."""
    active: frozenset[str]
    """Domains with a process: a VM that runs, or one end of a migration."""


def discover(api: Any, uris: list[str], *, seconds: float) -> dict[str, Any]:
    """Return the inventory; raises UnreachableError if no host answers.

    The hosts that do not answer are in `unknown_hosts`, with the reasons. The hosts are
    read one after the other, and a VM can move meanwhile to a host that was read before.
    Therefore they are asked again which VMs they have, and read again until each VM is
    found.
    """
    # A libvirt that hangs is waited for in its thread, which ends with the process.
    pool = ThreadPoolExecutor(HOSTS_AT_ONCE)
    until = time.monotonic() + seconds
    answer = _Asking(api, seconds * ANSWER_SHARE)
    inventories: dict[str, HostInventory] = {}
    unknown: dict[str, str] = {}
    again = uris
    for _ in range(1 + PASSES_MAX):
        for uri, inventory in zip(again, pool.map(answer.inventory, again)):
            _sort(uri, inventory, inventories, unknown)
        if time.monotonic() > until:
            break
        known = list(inventories)
        presences: dict[str, dict[str, str]] = {}
        for uri, answered in zip(known, pool.map(answer.presences, known)):
            _sort(uri, answered, presences, unknown)
        for uri in unknown:
            inventories.pop(uri, None)
        again = unsettled(inventories, presences)
        if not again:
            break
    if not inventories:
        raise UnreachableError("; ".join(unknown.values()))
    result = merged(inventories)
    return {**result, "unknown_hosts": list(unknown.values())} if unknown else result


def _sort(
    uri: str, answer: T | UnreachableError, known: dict[str, T], unknown: dict[str, str]
) -> None:
    """Put the answer of a host where it belongs."""
    if isinstance(answer, UnreachableError):
        unknown[uri] = str(answer)
    else:
        known[uri] = answer


def unsettled(
    inventories: dict[str, HostInventory], presences: dict[str, dict[str, str]]
) -> list[str]:
    """Return the URIs of the hosts to read again.

    `presences` are what the hosts said after all of them had been read. A host is read
    again if it has a VM that nothing had, or if two have read the same VM as running.
    """
    known = {
        vm for host_inventory in inventories.values() for vm in host_inventory.presences
    }
    running = Counter(
        vm
        for host_inventory in inventories.values()
        for vm, presence in host_inventory.presences.items()
        if presence == HERE
    )
    again: list[str] = []
    for uri, inventory in inventories.items():
        is_new = any(
            vm not in running if presence == HERE else vm not in known
            for vm, presence in presences.get(uri, {}).items()
        )
        is_double = any(
            presence == HERE and running[vm] > 1
            for vm, presence in inventory.presences.items()
        )
        if is_new or is_double:
            again.append(uri)
    return again


class _Asking:
    """Asks one libvirt, for a limited time."""

    def __init__(self, api: Any, seconds: float) -> None:
        self._api = api
        self._seconds = seconds

    def inventory(self, uri: str) -> HostInventory | UnreachableError:
        """Return the inventory of a host."""
        return self._answer(uri, _host)

    def presences(self, uri: str) -> dict[str, str] | UnreachableError:
        """Return how each domain of a host has its VM."""
        return self._answer(uri, _presences)

    def _answer(self, uri: str, ask: Callable[[Any, Any], T]) -> T | UnreachableError:
        def work() -> T:
            conn = self._api.open(uri)
            try:
                return ask(self._api, conn)
            finally:
                conn.close()

        try:
            return within(self._seconds, work, name=uri)
        except TimeoutError:
            return UnreachableError(f"{uri} did not answer within {self._seconds:g} s")
        except self._api.libvirtError as error:
            return UnreachableError(f"{uri}: {error}")


def merged(inventories: dict[str, HostInventory]) -> dict[str, Any]:
    """Return the inventory of all hosts, sorted by name; raises UnreachableError."""
    hosts: dict[str, dict[str, Any]] = {}
    vms: dict[str, dict[str, Any]] = {}
    ranks: dict[str, int] = {}
    for uri, inventory in inventories.items():
        host = inventory.host
        if host["name"] in hosts:
            raise UnreachableError(
                f"{uri}: another libvirt has the hostname {host['name']} too; each host "
                "needs a name of its own"
            )
        hosts[host["name"]] = host
        for vm in inventory.vms:
            name = vm["name"]
            rank = _rank(inventory, name)
            if rank == RUNNING and ranks.get(name) == RUNNING:
                raise UnreachableError(
                    f"{name} runs on {vms[name]['host']} and on {vm['host']}; rename one "
                    "of the two domains"
                )
            # The definition of a VM can be on several hosts; it runs on one.
            if rank > ranks.get(name, -1):
                vms[name], ranks[name] = vm, rank
    return {
        "hosts": [hosts[name] for name in sorted(hosts)],
        "vms": [vms[name] for name in sorted(vms)],
    }


DEFINED, ACTIVE, RUNNING = range(3)
"""Ranks of a VM at a host: only its definition; a process, such as that at the destination
of a live migration, which waits; the VM itself."""


def _rank(inventory: HostInventory, vm: str) -> int:
    if inventory.presences[vm] == HERE:
        return RUNNING
    return ACTIVE if vm in inventory.active else DEFINED


def _presences(api: Any, conn: Any) -> dict[str, str]:
    return dict(
        _each_domain(api, conn, lambda domain: (str(domain.name()), _presence(domain)))
    )


def _each_domain(api: Any, conn: Any, read: Callable[[Any], T]) -> Iterator[T]:
    """Yield what is read of each domain, except of those that leave meanwhile."""
    for domain in conn.listAllDomains(0):
        try:
            yield read(domain)
        except api.libvirtError as error:
            if error.get_error_code() != NO_DOMAIN:
                raise


def _presence(domain: Any) -> str:
    state, reason = domain.state()[:2]
    return guest_state(state, reason).presence


def _host(api: Any, conn: Any) -> HostInventory:
    _, mebibytes, vcpu = conn.getInfo()[:3]
    name = str(conn.getHostname())
    fixed = _fixed_addresses(api, conn)
    domains = list(_each_domain(api, conn, lambda domain: _domain(api, domain, fixed)))
    return HostInventory(
        host={"name": name, "vcpu": vcpu, "memory": mebibytes},
        vms=[{**domain.vm, "host": name} for domain in domains],
        presences={domain.vm["name"]: domain.presence for domain in domains},
        active=frozenset(domain.vm["name"] for domain in domains if domain.is_active),
    )


@dataclass(frozen=True)
class _Domain:
    vm: dict[str, Any]
    presence: str
    is_active: bool


def _domain(api: Any, domain: Any, fixed: dict[str, str]) -> _Domain:
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
    return _Domain(vm, _presence(domain), is_active)


def addresses_in(xml: str, fixed: dict[str, str]) -> list[str]:
    """Return the addresses that a definition gives to its interfaces.

    `fixed` has the addresses that networks give to MAC addresses.
    """
    addresses: set[str] = set()
    for interface in ET.fromstring(xml).findall("./devices/interface"):  # noqa: S314
        addresses.update(
            value
            for element in interface.findall("./filterref/parameter[@name='IP']")
            if (value := element.get("value"))
        )
        addresses.update(
            value
            for element in interface.findall("./ip")
            if (value := element.get("address"))
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
        for element in ET.fromstring(xml).findall("./ip/dhcp/host")  # noqa: S314
        if (mac := element.get("mac")) and (ip := element.get("ip"))
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
        address["addr"]
        for leased in interfaces.values()
        for address in leased["addrs"] or ()
    )
