"""Parser of plan files: TOML text in, a plan out.

A plan file has the interfaces of one host, which a fleet file does not have. Missing
addresses and listeners come from the fleet. The parser reports all problems at once.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping

from forewarn.addresses.model import (
    PORTS_MAX,
    ROUTING_TABLE,
    SERVICE,
    SHARED_LISTENER,
    Listener,
    Plan,
    Port,
    Way,
)
from forewarn.fleet.model import Vm
from forewarn.fleet.validators import split_listener
from forewarn.problems import did_you_mean, quoted
from forewarn.settings import forms
from forewarn.settings.forms import Form, Forms, Option, from_toml
from forewarn.settings.tables import FileError, Tables

TABLE_MAX = 0x7FFF_0000
"""Maximum number of a routing table: the kernel reserves the highest numbers."""

# Names that `nft` and `ip` accept without quotes, and no wildcards.
_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", re.ASCII)
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.ASCII)
_ANY = ipaddress.IPv4Address(0)


class AddressFileError(FileError):
    """The plan file has problems, and nothing was changed."""


def _listener(option: Option, value: object) -> Listener:
    text = forms.line(option, value)
    split = split_listener(text)
    # A guest's packets cannot reach loopback, and a reply must come from the address of
    # the request.
    if split is None or not split[1] or split[0] not in {SERVICE, str(_ANY), "::"}:
        raise ValueError(
            f"{quoted(text)} is not a listener that guests can reach: "
            f"write {SERVICE}:PORT or 0.0.0.0:PORT"
        )
    return Listener(*split)


def _interface(option: Option, value: object) -> str:
    text = forms.line(option, value)
    if text and not _INTERFACE.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not the name of an interface")
    return text


def _mac(option: Option, value: object) -> str:
    text = forms.line(option, value).lower()
    if text and not _MAC.fullmatch(text):
        raise ValueError(f"{quoted(text)} is not a MAC such as 52:54:00:12:34:56")
    return text


def _addresses(option: Option, value: object) -> tuple[str, ...]:
    addresses: list[str] = []
    for item in forms.items(option, value):
        try:
            address = ipaddress.IPv4Address(item if isinstance(item, str) else "")
        except ValueError:
            address = _ANY
        if address.is_multicast or address == _ANY:
            raise ValueError(f"must be {option.form.expected}")
        addresses.append(str(address))
    return tuple(dict.fromkeys(addresses))


_INTERFACES = Form(expected="a string", read=_interface)
_LISTEN = Option(form=Form(expected="a string", read=_listener))

_ROOT = {
    "way": Option(form=Forms.WORD, words=tuple(way.value for way in Way)),
    "listen": _LISTEN,
    "table": Option(form=Forms.COUNT, least=1, most=TABLE_MAX),
    "port": Option(form=Forms.TABLES, most=PORTS_MAX),
}

_PORT = {
    "vm": Option(form=Forms.LINE, is_needed=True),
    "interface": Option(form=_INTERFACES, is_needed=True),
    "bridge": Option(form=_INTERFACES, may_be_empty=True),
    "address": Option(
        form=Form(
            expected='an IPv4 address such as "192.0.2.4", or a list', read=_addresses
        ),
        may_be_empty=True,
    ),
    "mac": Option(form=Form(expected="a string", read=_mac), may_be_empty=True),
    "listen": _LISTEN,
}


def read_plan(text: str, *, name: str, vms: Mapping[str, Vm] | None = None) -> Plan:
    """Return the plan of `text`; `vms` are the VMs of the fleet, if there is one.

    Raises AddressFileError with all problems.
    """
    tables = Tables(name)
    root = tables.take("", tables.parse(text) or {}, _ROOT)
    if "port" not in root and not tables.problems:
        tables.blame("", "there is no [[port]]: no guest would reach the service")
    way = Way(root.get("way", Way.SOURCE))
    shared = root.get("listen") or from_toml(_LISTEN, SHARED_LISTENER)
    ports = [
        _port(
            tables,
            f"port.{number}",
            entry,
            vms,
            None if way is Way.LISTENER else shared,
        )
        for number, entry in enumerate(root.get("port", ()), start=1)
    ]
    plan = Plan(
        way=way,
        ports=tuple(port for port in ports if port is not None),
        table=root.get("table", ROUTING_TABLE),
    )
    if not tables.problems:
        numbers = {id(port): number for number, port in enumerate(ports, start=1)}
        for port, key, message in _clashes(plan):
            tables.blame(f"port.{numbers[id(port)]}.{key}", message)
    if tables.problems:
        raise AddressFileError(tables.problems)
    return plan


def _port(
    tables: Tables,
    where: str,
    entry: Mapping[str, object],
    vms: Mapping[str, Vm] | None,
    shared: Listener | None,
) -> Port | None:
    """Return the port of an entry, or None after reporting its problems."""
    problems_before = len(tables.problems)
    values = tables.take(where, entry, _PORT)
    name = values.get("vm", "")
    vm = None if vms is None else vms.get(name)
    if name and vms is not None and vm is None:
        near = did_you_mean(name, vms)
        tables.blame(f"{where}.vm", f"the fleet has no VM {quoted(name)}{near}")
    listener = shared or values.get("listen")
    if listener is None and "listen" not in entry:
        try:
            listener = from_toml(_LISTEN, vm.listen if vm else "")
        except ValueError as error:
            missing = f'is missing, such as "{SERVICE}:8301"'
            tables.blame(f"{where}.listen", str(error) if vm and vm.listen else missing)
    # The service has only an IPv4 address, so IPv6 addresses of the fleet are ignored.
    usual = (
        tuple(address for address in vm.addresses if ":" not in address) if vm else ()
    )
    values.setdefault("address", usual)
    is_known = shared is None and "bridge" not in values
    if (
        not values["address"]
        and not is_known
        and len(tables.problems) == problems_before
    ):
        tables.blame(
            f"{where}.address",
            "is missing: the service identifies this guest by its IPv4 address"
            if shared
            else "is missing: on a bridge, replies need the guest's IPv4 address",
        )
    if listener is None or len(tables.problems) > problems_before:
        return None
    values["addresses"] = values.pop("address")
    values["listener"] = listener
    values.pop("listen", None)
    return Port(**values)


def _clashes(plan: Plan) -> Iterator[tuple[Port, str, str]]:
    """Yield conflicts between ports: the port, the key, and the message."""
    bridges = {port.bridge for port in plan.bridged}
    taken: dict[tuple[str, str, str], Port] = {}
    for port in plan.ports:
        if port.interface in bridges:
            yield port, "interface", f"{port.interface} is a bridge of this plan"
        for key, where, value in _claims(port, plan.way):
            other = taken.setdefault((key, where, value), port)
            if other is not port:
                yield port, key, f"{value} is already used by {other.vm}"


def _claims(port: Port, way: Way) -> Iterator[tuple[str, str, str]]:
    """Yield the unique values of a port: the key, the bridge if it matters, the value."""
    yield "interface", "", port.interface
    if way is Way.LISTENER:
        yield "listen", "", f"port {port.listener.port}"
    # Separate taps distinguish guests; on one bridge only the address does.
    if way is Way.SOURCE or port.bridge:
        where = port.bridge if way is Way.LISTENER else ""
        for address in port.addresses:
            yield "address", where, address
