"""`check list` and `check run`: questions to other systems."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from forewarn.cli import output
from forewarn.cli.client import Client
from forewarn.cli.command_table import Call, Exit

_COLUMNS = ("CHECK", "OUTCOME", "ASKED", "REASON", "NEEDED", "KIND", "ASKS")


def list_(call: Call) -> int:
    """List the checks."""
    found = Client.of(call).get("checks")["checks"]
    return output.listed(call, found, "no checks", _COLUMNS, map(_row, found))


def run(call: Call) -> int:
    """Ask a check."""
    name = quote(call.text("name"), safe="")
    found = Client.of(call).post(f"checks/{name}/run", {}, is_question=True)
    output.said(call, found, f"{found['name']}: {found['outcome']}: {found['reason']}")
    return Exit.DONE if found["outcome"] == "pass" else Exit.FAILED


def _row(check: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        check["name"],
        check["outcome"],
        check["asked"] or "never",
        check["reason"],
        "yes" if check["needed"] else "no",
        check["kind"],
        check["asks"],
    )
