"""The default fleet of a simulation, and fleet files as tables.

The default fleet has a few VMs of one tenant. Each VM has its own host in the next fault
domain, as in an availability set of a platform, and a spare host receives migrated VMs.
Alternatively all VMs are on one host, so that its maintenance is one event that names all
of them.

Tables are not checked here: the reader of fleet files does that.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from forewarn import toml

FAULT_DOMAINS = 3
"""Number of fault domains, as in most regions."""

VMS = 3
"""Default number of VMs."""

VMS_MAX = 10_000
"""Maximum number of VMs in the default fleet. Write a fleet file for more."""

_HEAD = """\
[[tenant]]
name = "shop"

[[scope]]
name = "web"
tenant = "shop"
kind = "availability-set"
terminate_notice = "5m"

[[host]]
name = "spare"
"""


def vm_names(vms: int = VMS) -> list[str]:
    """Return the names of the VMs: web_0, web_1 and so on."""
    return [f"web_{number}" for number in range(vms)]


def fleet_text(vms: int = VMS, *, together: bool = False) -> str:
    """Return the fleet as a fleet file; `together`: all VMs on one host."""
    assert 1 <= vms <= VMS_MAX, vms
    hosts = 1 if together else vms
    parts = [_HEAD]
    parts += [f'\n[[host]]\nname = "h{number}"\n' for number in range(hosts)]
    for number, name in enumerate(vm_names(vms)):
        host = 0 if together else number
        parts.append(
            f'\n[[vm]]\nname = "{name}"\nhost = "h{host}"\nscope = "web"\n'
            f"fault_domain = {host % FAULT_DOMAINS}\n"
            f"update_domain = {number % 5}\n"
        )
    return "".join(parts)


Tables: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""Objects by kind and name."""

KINDS = ("tenant", "scope", "host", "vm")


def read(text: str) -> Tables:
    """Return the tables of a fleet file; raises ValueError if it is not TOML."""
    return {
        kind: {row["name"]: row for row in toml.loads(text).get(kind, [])}
        for kind in KINDS
    }


def write(tables: Tables) -> str:
    """Return the fleet file."""
    return write_tables({kind: table_.values() for kind, table_ in tables.items()})


def write_tables(tables: Mapping[str, Iterable[Mapping[str, Any]]]) -> str:
    """Return the text of a fleet file with these tables, by kind."""
    return "".join(
        f"[[{kind}]]\n" + "".join(_pairs(values))
        for kind in KINDS
        for values in tables.get(kind, ())
    )


def _pairs(values: Mapping[str, Any]) -> Iterable[str]:
    return (f"{toml.key(key)} = {toml.value(item)}\n" for key, item in values.items())


_NUMBER = re.compile(r"([0-9]{1,9})", re.ASCII)


def counted(name: str) -> list[tuple[int, str]]:
    """Return a sort key that compares the numbers in names as numbers."""
    parts = _NUMBER.split(name)
    return [(int(part), "") if at % 2 else (0, part) for at, part in enumerate(parts)]
