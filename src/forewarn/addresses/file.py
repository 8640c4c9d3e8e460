"""The file of a plan: TOML text in, a plan out.

It says what no fleet file knows, the interfaces of one host; addresses and
listeners that it leaves out are the fleet's. All problems are told together.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

from forewarn import toml
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
from forewarn.fleet.lines import Lines
from forewarn.fleet.model import Vm
from forewarn.fleet.validators import split_listener
from forewarn.problems import PROBLEMS_MAX, Problem, did_you_mean, not_toml, quoted
from forewarn.protocol.errors import ForewarnError

TABLE_MAX = 0x7FFF_0000
"""Of a routing table; the last ones are the kernel's own."""

_ROOT = {"way": str, "listen": str, "table": int, "port": list}
_PORT = ("vm", "interface", "bridge", "address", "mac", "listen")
_NEEDED = ("vm", "interface")

# What `nft` and `ip` take without quoting, and no wildcard.
_INTERFACE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,14}", re.ASCII)
_MAC = re.compile(r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}", re.ASCII)
_ANY = ipaddress.IPv4Address(0)


class AddressFileError(ForewarnError):
    """The file of a plan cannot be used, and nothing was changed."""

    def __init__(self, problems: list[Problem]) -> None:
        """Tell of the problems in the order of their lines."""
        told = sorted(problems[:PROBLEMS_MAX], key=lambda each: each.line)
        super().__init__("\n".join(str(problem) for problem in told))


def read_plan(text: str, *, name: str, vms: Mapping[str, Vm] | None = None) -> Plan:
    """Return the plan of `text`; `vms` are the fleet's, where there is one.

    Raises AddressFileError with everything that is wrong.
    """
    try:
        tables = toml.loads(text)
    except (ValueError, RecursionError) as error:
        raise AddressFileError([not_toml(error, file=name, text=text)]) from error
    return _Reader(tables, text=text, name=name, vms=vms).plan()


class _Reader:
    def __init__(
        self,
        tables: dict[str, Any],
        *,
        text: str,
        name: str,
        vms: Mapping[str, Vm] | None,
    ) -> None:
        self._tables = tables
        self._name = name
        self._vms = vms
        self._lines = Lines(text)
        self._problems: list[Problem] = []

    def plan(self) -> Plan:
        self._check_root()
        way = self._way()
        shared = self._root("listen", SHARED_LISTENER)
        listener = _listener(shared)
        if listener is None:
            self._blame("listen", f"{quoted(shared)} {_NO_LISTENER}")
        table = self._root("table", ROUTING_TABLE)
        if not 1 <= table <= TABLE_MAX:
            self._blame("table", f"must be 1 to {TABLE_MAX}")
        ports: list[Port | None] = [
            self._port(index, entry, shared=None if way is Way.LISTENER else listener)
            for index, entry in enumerate(self._entries())
        ]
        plan = Plan(
            way=way,
            ports=tuple(each for each in ports if each is not None),
            table=table,
        )
        if not self._problems:
            indexes = {id(port): index for index, port in enumerate(ports)}
            for port, key, message in _clashes(plan):
                self._blame_port(indexes[id(port)], key, message)
        if self._problems:
            raise AddressFileError(self._problems)
        return plan

    def _check_root(self) -> None:
        for key, value in self._tables.items():
            kind = _ROOT.get(key)
            if kind is None:
                self._blame(key, f"there is no such key{did_you_mean(key, _ROOT)}")
            elif not isinstance(value, kind) or isinstance(value, bool):
                form = {str: "a text", int: "a whole number", list: "tables [[port]]"}
                self._blame(key, f"must be {form[kind]}")

    def _root(self, key: str, default: Any) -> Any:
        value = self._tables.get(key, default)
        return value if type(value) is type(default) else default

    def _way(self) -> Way:
        text = self._root("way", Way.SOURCE.value)
        try:
            return Way(text)
        except ValueError:
            self._blame("way", f'must be "source" or "listener", not {quoted(text)}')
            return Way.SOURCE

    def _entries(self) -> list[dict[str, Any]]:
        entries = self._root("port", [])
        if not entries and not self._problems:
            self._blame("", "there is no [[port]]: no guest would reach the service")
        if len(entries) > PORTS_MAX:
            self._blame("port", f"a host has at most {PORTS_MAX}, not {len(entries)}")
            return []
        if any(not isinstance(entry, dict) for entry in entries):
            self._blame("port", "must be tables [[port]]")
            return []
        return cast("list[dict[str, Any]]", entries)

    def _port(
        self, index: int, entry: dict[str, Any], *, shared: Listener | None
    ) -> Port | None:
        before = len(self._problems)
        texts = self._texts(index, entry)
        vm = self._vm(index, texts)
        addresses = self._addresses(index, entry, vm)
        mac = texts.get("mac", "").lower()
        if mac and not _MAC.fullmatch(mac):
            example = "52:54:00:12:34:56"
            self._blame_port(index, "mac", f"{quoted(mac)} is no MAC such as {example}")
        for key in ("interface", "bridge"):
            text = texts.get(key, "")
            if text and not _INTERFACE.fullmatch(text):
                self._blame_port(
                    index, key, f"{quoted(text)} is no name of an interface"
                )
        listener = shared or self._own_listener(index, texts, vm)
        is_known = shared is None and not texts.get("bridge")
        if not addresses and not is_known and len(self._problems) == before:
            self._blame_port(
                index,
                "address",
                "is missing: an IPv4 address is how this guest is known"
                if shared
                else "is missing: on a bridge, replies need the guest's IPv4 address",
            )
        if listener is None or len(self._problems) > before:
            return None
        return Port(
            vm=texts["vm"],
            interface=texts["interface"],
            listener=listener,
            bridge=texts.get("bridge", ""),
            addresses=addresses,
            mac=mac,
        )

    def _texts(self, index: int, entry: dict[str, Any]) -> dict[str, str]:
        for key in entry:
            if key not in _PORT:
                self._blame_port(
                    index, key, f"there is no such key{did_you_mean(key, _PORT)}"
                )
        texts: dict[str, str] = {}
        for key in _PORT:
            value = entry.get(key)
            if isinstance(value, str) and value.isprintable():
                texts[key] = value
            elif value is not None and key != "address":
                self._blame_port(index, key, "must be a text")
        for key in _NEEDED:
            if key not in entry or texts.get(key) == "":
                self._blame_port(index, key, "is missing")
        return texts

    def _vm(self, index: int, texts: dict[str, str]) -> Vm | None:
        if self._vms is None or "vm" not in texts:
            return None
        vm = self._vms.get(texts["vm"])
        if vm is None:
            near = did_you_mean(texts["vm"], self._vms)
            message = f"the fleet has no VM {quoted(texts['vm'])}{near}"
            self._blame_port(index, "vm", message)
        return vm

    def _addresses(
        self, index: int, entry: dict[str, Any], vm: Vm | None
    ) -> tuple[str, ...]:
        value = entry.get("address", [])
        if "address" not in entry and vm is not None:
            # The service has an IPv4 address only, so only those come from there.
            value = [each for each in vm.addresses if ":" not in each]
        found: list[str] = []
        for each in cast("list[Any]", value if isinstance(value, list) else [value]):
            try:
                address = ipaddress.IPv4Address(each)
            except ValueError:
                address = _ANY
            if not isinstance(each, str) or address.is_multicast or address == _ANY:
                example = 'must be an IPv4 address such as "192.0.2.4", or a list'
                self._blame_port(index, "address", example)
            else:
                found.append(str(address))
        return tuple(dict.fromkeys(found))

    def _own_listener(
        self, index: int, texts: dict[str, str], vm: Vm | None
    ) -> Listener | None:
        text = texts.get("listen") or (vm.listen if vm else "")
        listener = _listener(text)
        if not text:
            self._blame_port(index, "listen", f'is missing, such as "{SERVICE}:8301"')
        elif listener is None:
            self._blame_port(index, "listen", f"{quoted(text)} {_NO_LISTENER}")
        return listener

    def _blame(self, key: str, message: str) -> None:
        line = self._lines.root(key) if key in self._tables else 0
        self._problems.append(
            Problem(file=self._name, line=line, key=key, message=message)
        )

    def _blame_port(self, index: int, key: str, message: str) -> None:
        self._problems.append(
            Problem(
                file=self._name,
                line=self._lines.key("port", index, key),
                key=f"port.{key}",
                message=message,
            )
        )


_NO_LISTENER = (
    f"is no listener that guests can be led to: write {SERVICE}:PORT or 0.0.0.0:PORT"
)


def _listener(text: str) -> Listener | None:
    split = split_listener(text)
    # A packet of a guest is never for loopback, and a reply must come from the
    # address that was asked.
    if split is None or not split[1] or split[0] not in {SERVICE, str(_ANY), "::"}:
        return None
    return Listener(*split)


def _clashes(plan: Plan) -> Iterator[tuple[Port, str, str]]:
    """Yield what two ports cannot both have."""
    bridges = {port.bridge for port in plan.bridged}
    taken: dict[tuple[str, str, str], Port] = {}
    for port in plan.ports:
        if port.interface in bridges:
            yield port, "interface", f"{port.interface} is a bridge of this plan"
        for key, where, what in _claims(port, plan.way):
            other = taken.setdefault((key, where, what), port)
            if other is not port:
                yield port, key, f"{what} is already {other.vm}'s"


def _claims(port: Port, way: Way) -> Iterator[tuple[str, str, str]]:
    """Yield what is one port's alone: the key, where, and what."""
    yield "interface", "", port.interface
    if way is Way.LISTENER:
        yield "listen", "", f"port {port.listener.port}"
    # Taps are told apart by themselves; on one bridge nothing else is left.
    if way is Way.SOURCE or port.bridge:
        where = port.bridge if way is Way.LISTENER else ""
        for address in port.addresses:
            yield "address", where, address
