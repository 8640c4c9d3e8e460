"""`webhook list` and `webhook test`: the state of receivers."""

from collections.abc import Mapping
from typing import Any

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call, Exit

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
    found = Client.of(call).get("webhooks")["webhooks"]
    return output.listed(call, found, "no webhooks", _COLUMNS, map(_row, found))


def test(call: Call) -> int:
    """Send a ping to a receiver."""
    found = Client.of(call).post("webhooks/test", {"name": call.text("name")})
    line = (
        f"accepted it: {found['status']} in {found['seconds']:g} s"
        if found["delivered"]
        else f"did not accept it: {found['error']}"
    )
    output.said(call, found, f"{found['webhook']} {line}")
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
