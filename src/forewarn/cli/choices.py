"""`deferrals`, and the result of `defer` and `expedite`."""

from collections.abc import Sequence

from forewarn.cli import output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call


def show(call: Call) -> int:
    """Print what tenants have deferred or expedited."""
    query = call.given("tenant", "scope")
    deferrals = list(Client.of(call).every("tenant/deferrals", "deferrals", query))
    return output.shown(call, deferrals, _table)


def _table(deferrals: Sequence[Json]) -> None:
    output.table(
        "no maintenance is deferred or expedited",
        ("SCOPE", "VM", "UNTIL", "TIMES", "BY", "REASON", "TENANT", "ROLLOUT"),
        [
            (
                deferral["scope"],
                deferral["vm"] or "all",
                "over" if deferral["over"] else deferral["until"] or "at once",
                str(deferral["deferrals"]),
                deferral["by"],
                deferral["reason"],
                deferral["tenant"],
                deferral["rollout"] or "-",
            )
            for deferral in deferrals
        ],
        essential=3,
    )


def choice_line(choice: Json) -> str:
    """Return a choice as a line."""
    subject = f"VM {choice['vm']}" if choice["vm"] else f"scope {choice['scope']}"
    if choice["expedited"]:
        return (
            f"the maintenance of {subject} comes first when its host can be maintained, and "
            "is approved before an agent in a VM has prepared"
        )
    if choice["over"]:
        return f"the maintenance of {subject} is no longer deferred"
    return f"the maintenance of {subject} is deferred until {choice['until']}"
