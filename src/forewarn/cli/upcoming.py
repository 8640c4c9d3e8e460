"""`upcoming`: the coming work on the VMs of a tenant."""

from collections.abc import Sequence

from forewarn.cli import output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call


def show(call: Call) -> int:
    """Print the coming work on the VMs of a tenant."""
    asked = call.given("tenant", "scope", "vm")
    found = list(Client.of(call).every("tenant/upcoming", "upcoming", asked))
    return output.shown(call, found, _table)


def _table(found: Sequence[Json]) -> None:
    output.table(
        "no work is planned or announced",
        ("VM", "IMPACT", "EARLIEST", "LATEST", "STATE", "SCOPE"),
        [
            (
                each["vm"],
                each["impact"],
                each["earliest"] or "unknown",
                each["latest"] or f"unknown: {each['why_unknown']}",
                each["state"],
                each["scope"],
            )
            for each in found
        ],
        essential=4,
    )


def upcoming_line(work: Json) -> str:
    """Return coming work on one VM as a line, without the VM."""
    begins = f"not before {work['earliest']}" if work["earliest"] else "begin unknown"
    latest = work["latest"]
    ends = (
        f"expected by {latest}"
        if latest
        else f"latest time unknown: {work['why_unknown']}"
    )
    said = f" ({work['description']})" if work["description"] else ""
    return f"{work['state'].lower()}: {work['impact']}, {begins}, {ends}{said}"
