"""`window show`: the maintenance windows of scopes, and when they open."""

from collections.abc import Sequence

from forewarn.cli import output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call


def show(call: Call) -> int:
    """Print the maintenance windows of scopes."""
    windows = list(Client.of(call).every("windows", "windows", call.given("scope")))
    return output.shown(call, windows, _table)


def _table(windows: Sequence[Json]) -> None:
    output.table(
        "no scope has a maintenance window",
        ("SCOPE", "NEXT OPENING", "CLOSES", "WINDOWS", "TENANT"),
        [
            (
                window["scope"],
                *_next(window),
                "; ".join(window["windows"]) or "at any time",
                window["tenant"],
            )
            for window in windows
        ],
    )


def _next(scope: Json) -> tuple[str, str]:
    if not scope["openings"]:
        return "-", "-"
    first = scope["openings"][0]
    return first["opens"], first["closes"]


def windows_line(scope: Json) -> str:
    """Return the windows of a scope and their next opening, as a line."""
    if not scope["windows"]:
        return f"scope {scope['scope']} can be maintained at any time"
    first = scope["openings"][0]["opens"]
    return f"scope {scope['scope']}: {'; '.join(scope['windows'])} (next: {first})"
