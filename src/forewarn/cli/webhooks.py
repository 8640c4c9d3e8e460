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
    "DROPPED",
    "LAST DELIVERED",
    "NEXT TRY",
    "LAST ERROR",
)


def list_(call: Call) -> int:
    """List the receivers."""
    webhooks = Client.of(call).get("webhooks")["webhooks"]
    return output.listed(call, webhooks, "no webhooks", _COLUMNS, map(_row, webhooks))


def test(call: Call) -> int:
    """Send a ping to a receiver."""
    delivery = Client.of(call).post("webhooks/test", {"name": call.text("name")})
    line = (
        f"accepted it: {delivery['status']} in {delivery['seconds']:g} s"
        if delivery["delivered"]
        else f"did not accept it: {delivery['error']}"
    )
    output.said(call, delivery, f"{delivery['webhook']} {line}")
    return Exit.DONE if delivery["delivered"] else Exit.FAILED


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
