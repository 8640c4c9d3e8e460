"""`relay list`: the relays of all hosts."""

from collections.abc import Mapping
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.selecting import selectors

_COLUMNS = ("HOST", "STATE", "SINCE", "LAST SEEN", "BEHIND")


def list_(call: Call) -> int:
    """List the relays."""
    relays = Client.of(call).get("relays", selectors(call))["relays"]
    return output.listed(call, relays, "no relays", _COLUMNS, map(row, relays))


def row(relay: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a relay."""
    behind = relay["behind_seconds"]
    return (
        relay["host"],
        "connected" if relay["connected"] else "away",
        relay["since"] or "-",
        relay["last_seen"] or "-",
        f"{behind:.1f} s" if behind else "-",
    )
