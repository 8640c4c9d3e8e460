"""`operations` and `events`: lists for people, arrays for programs."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit

Json = Mapping[str, Any]

_OPERATION_COLUMNS = (
    "OPERATION",
    "STATE",
    "WHAT",
    "NOT BEFORE",
    "APPROVED",
    "WAITS FOR",
)
_EVENT_COLUMNS = (
    "EVENT",
    "STATUS",
    "TYPE",
    "SCOPE",
    "VMS",
    "NOT BEFORE",
    "APPROVED BY",
    "OPERATION",
)


def operations(call: Call) -> int:
    """List operations, or watch them."""
    if call.flag("watch"):
        return _watch(call, "operations", operation_row)
    with Client.of(call) as client:
        found = list(client.every("operations", "operations", _filters(call)))
    found.sort(key=lambda each: (each["not_before"], each["operation"]))
    if call.flag("json"):
        output.document(found)
    else:
        rows = map(operation_row, found)
        output.table("no open operations", _OPERATION_COLUMNS, rows)
    return Exit.DONE


def events(call: Call) -> int:
    """List events, or watch them."""
    if call.flag("watch"):
        return _watch(call, "events", event_row)
    with Client.of(call) as client:
        found = list(client.every("events", "events", _filters(call)))
    found.sort(key=lambda each: (each["created"], each["EventId"]))
    if call.flag("json"):
        output.document(found)
    else:
        output.table("no events", _EVENT_COLUMNS, map(event_row, found))
    return Exit.DONE


def first_line(text: str) -> str:
    """Return what fits in a table of a text that may have several lines."""
    first, *rest = text.splitlines() or [""]
    return f"{first} (+{len(rest)} lines)" if rest else first


def what(operation: Json) -> str:
    """Return what an operation is in few words: `reboot of vm web_0`."""
    kind, impact = operation["kind"], operation["impact"]
    if kind == "maintain":
        kind = f"maintain ({impact})"
    # A tenant is not told which host.
    return f"{kind} of {operation['target_kind']} {operation['target']}".rstrip()


def operation_row(operation: Json) -> tuple[str, ...]:
    """Return an operation's cells."""
    events = operation["events"]
    approved = sum(1 for event in events if event["approved_by"])
    waits = list(operation["blocked_by"])
    more = f" (+{len(waits) - 1} more)" if len(waits) > 1 else ""
    return (
        operation["operation"],
        operation["state"],
        what(operation),
        operation["not_before"],
        f"{approved}/{len(events)}" if events else "-",
        waits[0] + more if waits else _nothing_done(operation),
    )


def _nothing_done(operation: Json) -> str:
    """Return that an operation called no driver; empty if it did, or will."""
    return operation["note"] if operation.get("no_driver_call") else ""


def event_row(event: Json) -> tuple[str, ...]:
    """Return an event's cells."""
    return (
        event["EventId"],
        event["EventStatus"],
        event["EventType"],
        event["scope"],
        " ".join(event["vms"]),
        event["NotBefore"],
        event["approved_by"] or "",
        event["operation"],
    )


def _filters(call: Call) -> dict[str, str]:
    keys = ("vm", "host", "scope", "tenant", "state")
    asked = {key: text for key in keys if (text := call.text(key))}
    if call.flag("all") or call.text("state") in {"done", "cancelled", "failed"}:
        asked["all"] = "true"
    return asked


def _watch(call: Call, what_: str, row: Callable[[Json], Sequence[str]]) -> int:
    asked = {key: text for key, text in _filters(call).items() if key != "all"}
    is_json = call.flag("json")
    # Ctrl-C is how one stops watching, so it is no failure.
    with contextlib.suppress(KeyboardInterrupt), Client.of(call) as client:
        for name, data in client.watch(f"watch/{what_}", asked):
            if name:
                continue
            if is_json:
                output.json_line(data)
            else:
                output.line("  ".join(cell for cell in row(data) if cell))
    return Exit.DONE
