"""`upcoming`: the coming work on the VMs of a tenant."""

from forewarn.cli import output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call, Exit
from forewarn.cli.listings import Listing
from forewarn.cli.watching import watch


def show(call: Call) -> int:
    """Print the coming work on the VMs of a tenant, and with --watch its changes."""
    query = call.given("tenant", "scope", "vm")
    if call.flag("watch"):
        return watch(call, UPCOMING, query)
    work_items = list(Client.of(call).every("tenant/upcoming", UPCOMING.path, query))
    if call.flag("json"):
        output.document(work_items)
    else:
        rows = map(UPCOMING.row, work_items)
        output.table(
            UPCOMING.empty, UPCOMING.columns, rows, essential=UPCOMING.essential
        )
    return Exit.DONE


def _row(work: Json) -> tuple[str, ...]:
    return (
        work["vm"],
        work["state"],
        work["impact"],
        work["earliest"] or "unknown",
        work["latest"] or f"unknown: {work['why_unknown']}",
        work["scope"],
    )


UPCOMING = Listing(
    path="upcoming",
    noun="VM",
    empty="no work is planned or announced",
    columns=("VM", "STATE", "IMPACT", "EARLIEST", "LATEST", "SCOPE"),
    essential=5,
    row=_row,
    key="work",
    state="state",
    order="vm",
    ended="ended",
    keeps_ended=False,
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
    description = f" ({work['description']})" if work["description"] else ""
    return f"{work['state'].lower()}: {work['impact']}, {begins}, {ends}{description}"
