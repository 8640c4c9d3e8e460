"""`webhook list` and `webhook test`: how receivers do."""

from collections.abc import Mapping
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call
from forewarn.cli.failure import Exit

_COLUMNS = (
    "WEBHOOK",
    "TENANT",
    "STATE",
    "PENDING",
    "GIVEN UP",
    "LAST DELIVERED",
    "NEXT TRY",
    "LAST ERROR",
)


def list_(call: Call) -> int:
    """List the receivers."""
    with Client.of(call) as client:
        found = client.get("webhooks")["webhooks"]
    if call.flag("json"):
        output.document(found)
    else:
        output.table("no webhooks", _COLUMNS, map(_row, found))
    return Exit.DONE


def test(call: Call) -> int:
    """Have a ping sent."""
    with Client.of(call) as client:
        found = client.post("webhooks/test", {"name": call.text("name")})
    if call.flag("json"):
        output.document(found)
    elif found["delivered"]:
        took = f"{found['seconds']:g} s"
        output.line(f"{found['webhook']} took it: {found['status']} in {took}")
    else:
        output.line(f"{found['webhook']} did not take it: {found['error']}")
    return Exit.DONE if found["delivered"] else Exit.FAILED


def _row(webhook: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        webhook["webhook"],
        webhook["tenant"] or "-",
        webhook["state"],
        str(webhook["pending"]),
        str(webhook["dropped"]),
        webhook["last_delivered"] or "-",
        webhook["next_try"] or "-",
        webhook["last_error"] or "",
    )
