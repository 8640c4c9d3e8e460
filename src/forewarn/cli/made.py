"""The result of a request: a row for each operation, and the next command."""

from collections.abc import Iterator, Mapping
from typing import Any

from forewarn.cli import output
from forewarn.cli.command_table import Call
from forewarn.cli.listings import OPERATIONS
from forewarn.cli.lists import show
from forewarn.cli.tables import count
from forewarn.verbs.table import VERBS

Json = Mapping[str, Any]

_VM_COLUMNS = ("VM", "EVENT", "STATUS", "SCOPE", "TENANT", "OPERATION")


def print_made(call: Call, request: Json) -> None:
    """Print a request; with --all also a row for each VM with its event."""
    found = request["operations"]
    word = "rollout" if request["rollout"] else "request"
    output.line(f"{request['kind']}: {word} {request['request']}")
    show(call, OPERATIONS, found)
    if call.flag("all"):
        output.line()
        rows = [row for each in found for row in _vm_rows(each)]
        output.table("it has no VMs", _VM_COLUMNS, rows)
    silent = [
        each for each in found if each["state"] != "Planned" and not each["events"]
    ]
    if silent:
        which = f" for {count(len(silent), 'operation')}" if len(found) > 1 else ""
        output.line(f"no event{which}, so no VM gets notice")
        if why := VERBS[request["kind"]].without_notice:
            output.line(f"  {why}")
    if found:
        print_next(found[0]["operation"])
    if len(found) > 1 and request["rollout"]:
        output.line(f"next: forewarn operations --rollout {request['rollout']} --watch")


def print_next(operation: str) -> None:
    """Print the command that explains why an operation waits."""
    output.line(f"next: forewarn explain {operation}")


def _vm_rows(operation: Json) -> Iterator[tuple[str, ...]]:
    told: set[str] = set()
    for event in operation["events"]:
        for name in event["resources"]:
            told.add(name)
            yield (
                name,
                event["EventId"],
                event["status"],
                event["scope"],
                event["tenant"],
                operation["operation"],
            )
    for move in operation["moves"]:
        if move["vm"] not in told:
            yield move["vm"], "-", "-", "-", "-", operation["operation"]
