"""The locations of the QEMU processes of VMs, and how they are started.

The monitors of a VM are sockets whose paths have its name and the name of its host. The
paths on other hosts are sockets too, such as those that `ssh -L` forwards.
"""

import glob
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from forewarn.drivers.placeholders import expand, literal_json
from forewarn.fleet.validators import NEVER_IN_NAMES

VM_AND_HOST = ("vm", "host")
"""The placeholders of each path and program."""

_NAMES = re.compile(r"\{(vm|host)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The settings of the driver that its programs need."""

    monitor: str
    """Path of the monitor for commands."""
    events: str = ""
    """Path of the monitor for events; empty: nothing is watched."""
    migration: str = ""
    """Address on which the destination of a migration listens."""
    start: tuple[str, ...] = ()
    """Program that starts a VM; empty: the driver starts none."""
    receive: tuple[str, ...] = ()
    """Program that starts a VM with `-incoming defer`; empty: no live migration."""
    freeze: float = 5.0
    """Seconds of a freeze, but at most those of its event."""
    shutdown: float = 0.0
    """Seconds that a guest has to shut down; 0: it is not asked."""
    downtime: float = 0.3
    """Maximum seconds that a live migration stops the guest, as QEMU estimates them."""

    @property
    def text(self) -> str:
        """Return the settings as one argument of a program, without placeholders."""
        return literal_json(asdict(self))

    def monitor_of(self, vm: str, host: str) -> Path:
        """Return the path of a VM's monitor for commands."""
        return Path(_filled(self.monitor, vm=vm, host=host))

    def migration_of(self, vm: str, host: str) -> str:
        """Return the address on which a host listens for a migration."""
        return _filled(self.migration, vm=vm, host=host)

    def words_of(self, command: tuple[str, ...], vm: str, host: str) -> tuple[str, ...]:
        """Return a program that starts a VM on a host."""
        return expand(command, {"vm": vm, "host": host})

    def has_monitor(self, vm: str, host: str) -> bool:
        """Return whether a host has a socket of a VM."""
        return self.monitor_of(vm, host).exists()

    def hosts_of(self, vm: str) -> list[str]:
        """Return the hosts that have a socket of a VM."""
        return sorted(
            host for name, host in sockets_in(self.monitor, vm=vm) if name == vm
        )

    def watched(self) -> list[tuple[str, str]]:
        """Return the VMs and hosts that have a socket for events."""
        return sorted(sockets_in(self.events)) if self.events else []

    def events_of(self, vm: str, host: str) -> Path:
        """Return the path of a VM's monitor for events."""
        return Path(_filled(self.events, vm=vm, host=host))


def path_problem(path: str) -> str:
    """Return the problem of a monitor's path; empty if there is none."""
    if not path.startswith("/") or not path.isprintable():
        return "must be an absolute path"
    example = "/run/qemu/{host}/{vm}.qmp"
    if problem := _names_problem(path, needed=VM_AND_HOST, example=example):
        return problem
    return "" if _is_unambiguous(path) else _AMBIGUOUS


def address_problem(address: str) -> str:
    """Return the problem of the address of a migration; empty if there is none.

    Two VMs can move to one host at once, so an address must not be that of both.
    """
    if not address.isprintable():
        return _NO_ADDRESS
    if address.startswith("unix:/"):
        return _names_problem(address, needed=("vm",), example="/run/qemu/{vm}.move")
    match = _TCP.fullmatch(address)
    if match is None:
        return _NO_ADDRESS
    if problem := _names_problem(address):
        return problem
    first, last = int(match["first"]), int(match["last"] or match["first"])
    if match["last"] and not 0 < first < last <= PORT_MAX:
        return f"{first} to {last} is not a range of ports"
    return "" if first == 0 or match["last"] else _ONE_PORT


def destination_of(address: str, port: str) -> str:
    """Return where the source sends a migration.

    Parameters
    ----------
    address
        Where the destination listens, as it was ordered.
    port
        The port that it has taken; empty for a Unix socket.
    """
    match = _TCP.fullmatch(address) if port else None
    return f"tcp:{match['host']}:{port}" if match else address


PORT_MAX = 65_535
"""Maximum number of a port of TCP."""

_TCP = re.compile(r"tcp:(?P<host>[^,]+):(?P<first>\d{1,5})(?:,to=(?P<last>\d{1,5}))?")
"""An address of QEMU: it listens on the first free port of the range; 0 is any."""

_NO_ADDRESS = (
    "must be an address such as tcp:{host}:49152,to=49215 or unix:/run/qemu/{vm}.move"
)

_ONE_PORT = (
    "two VMs can move to one host at once, and each needs a port of its own: name a range, "
    "such as tcp:{host}:49152,to=49215, or any free port, tcp:{host}:0"
)

_AMBIGUOUS = (
    "two VMs could have one path: names contain dots and hyphens, so a VM a on a host b.c "
    "looks like a VM a.b on a host c; put a slash or @ between {host} and {vm}, such as "
    "/run/qemu/{host}/{vm}.qmp"
)


def _is_unambiguous(path: str) -> bool:
    """Return whether each VM and host have a path of their own.

    A name that is alone between two characters that no name contains can be read from
    the path. Then so can the other, because it has the rest of its part of the path.
    """
    return any(
        len(set(_NAMES.findall(part))) == 1 for part in NEVER_IN_NAMES.split(path)
    )


def _names_problem(
    text: str, *, needed: tuple[str, ...] = (), example: str = ""
) -> str:
    names = re.findall(r"\{([^{}]*)\}", text)
    for name in names:
        if name not in VM_AND_HOST:
            return f"unknown placeholder {{{name}}}: use {{vm}} and {{host}}"
    for name in needed:
        if name not in names:
            return f"must have the placeholder {{{name}}}, such as {example}"
    return ""


def places_from(text: str) -> Places:
    """Return the settings in an argument that `Places.text` made."""
    note = cast("dict[str, Any]", json.loads(text))
    for key in ("start", "receive"):
        note[key] = tuple(note[key])
    return Places(**note)


def sockets_in(template: str, **known: str) -> Iterator[tuple[str, str]]:
    """Yield the VM and the host of each file whose path fits a template."""
    escaped = {name: glob.escape(text) for name, text in known.items()}
    pattern = "".join(
        escaped.get(part, "*") if number % 2 else glob.escape(part)
        for number, part in enumerate(_NAMES.split(template))
    )
    reader = _reader_of(template)
    for path in glob.iglob(pattern):  # noqa: PTH207 - the pattern is absolute
        if (match := reader.fullmatch(path)) is not None:
            yield match["vm"], match["host"]


def _reader_of(template: str) -> re.Pattern[str]:
    """Return an expression that reads the VM and the host in a path."""
    names: set[str] = set()
    parts: list[str] = []
    for number, part in enumerate(_NAMES.split(template)):
        if not number % 2:
            parts.append(re.escape(part))
        elif part in names:
            parts.append(f"(?P={part})")
        else:
            names.add(part)
            parts.append(f"(?P<{part}>[^/]+?)")
    return re.compile("".join(parts))


def _filled(template: str, **names: str) -> str:
    values: Mapping[str, str] = names
    return _NAMES.sub(lambda match: values[match[1]], template)
