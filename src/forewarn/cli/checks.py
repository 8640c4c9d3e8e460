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
    checks = Client.of(call).get("checks")["checks"]
    return output.listed(call, checks, "no checks", _COLUMNS, map(_row, checks))


def run(call: Call) -> int:
    """Ask a check."""
    name = quote(call.text("name"), safe="")
    result = Client.of(call).post(f"checks/{name}/run", {}, is_question=True)
    output.said(
        call, result, f"{result['name']}: {result['outcome']}: {result['reason']}"
    )
    return Exit.DONE if result["outcome"] == "pass" else Exit.FAILED


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
