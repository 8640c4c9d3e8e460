"""The lists of the API as values: the rows of objects, and their order."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from forewarn.cli.tables import counts
from forewarn.instants import Micros, format_instant, parse_http_date, parse_instant
from forewarn.texts import count

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One list of the API, and its table."""

    path: str
    """Path of the list in the API, which is also the name of the list in a page."""
    noun: str
    empty: str
    columns: tuple[str, ...]
    """Columns in the order of their importance."""
    essential: int
    """Number of the first columns that a terminal never leaves out."""
    row: Callable[[Json], Sequence[str]]
    key: str
    """The member with the name of an object."""
    state: str
    """The member with the state of an object."""
    order: str
    """The first member by which rows are sorted."""
    urgency: Callable[[Json], tuple[Any, ...]] | None = None
    """Returns a sort key that comes before it: if not all rows fit on a terminal, the
    first ones are shown, and not those that changed last."""
    ended: str = ""
    """The member with the time of the end; a problem has it only in its last
    message."""
    times: tuple[str, ...] = ()
    """Members with the times at which an object changed; a missing time is null."""
    keeps_ended: bool = True
    """Whether an ended object keeps its row with --watch."""

    def sorted(self, objects: Iterable[Json]) -> list[Json]:
        """Return objects in the order of their rows."""
        return sorted(objects, key=self.place)

    def place(self, object_: Json) -> tuple[Any, ...]:
        """Return the sort key of an object."""
        urgency = self.urgency(object_) if self.urgency else ()
        return *urgency, object_[self.order], object_[self.key]

    def changed(self, object_: Json) -> Micros:
        """Return when an object changed last, as the service knows it; 0: unknown."""
        times = (object_.get(member) for member in self.times)
        return max((parse_instant(time) for time in times if time), default=0)

    def summary(self, objects: Sequence[Json]) -> str:
        """Return the sums of several objects; empty for a single one."""
        vms = sum(object_.get("vm_count", 0) for object_ in objects)
        return total(self.noun, vms, [object_[self.state] for object_ in objects])


def total(noun: str, vms: int, states: Sequence[str]) -> str:
    """Return the numbers of objects in each state; empty for a single one."""
    if len(states) <= 1:
        return ""
    of_vms = f", {count(vms, 'VM')}" if vms else ""
    return f"{count(len(states), noun)}{of_vms}: {counts(states)}"


def first_line(text: str) -> str:
    """Return the first line of a string, with the number of other lines."""
    first, *rest = text.splitlines() or [""]
    return f"{first} (+{len(rest)} lines)" if rest else first


def what(operation: Json) -> str:
    """Return an operation in few words: `reboot of vm web_0`."""
    kind, impact = operation["kind"], operation["impact"]
    if kind == "maintain":
        kind = f"maintain ({impact})"
    # A tenant's report has no host.
    return f"{kind} of {operation['target_kind']} {operation['target']}".rstrip()


def cordons_of(host: Json) -> str:
    """Return who cordoned a host, and why: `alice (bad DIMM), bob`."""
    return ", ".join(
        cordon["by"] + (f" ({cordon['reason']})" if cordon["reason"] else "")
        for cordon in host["cordons"]
    )


def approved(events_: Sequence[Json]) -> str:
    """Return the number of approved events: `2/15`, without events of failures."""
    wanted = [event for event in events_ if event["needs_approval"]]
    approved_count = sum(1 for event in wanted if event["approved_by"])
    return f"{approved_count}/{len(wanted)}" if wanted else "-"


def operation_row(operation: Json) -> tuple[str, ...]:
    """Return an operation's cells."""
    waits = list(operation["blocked_by"])
    more = f" (+{len(waits) - 1} more)" if len(waits) > 1 else ""
    return (
        operation["operation"],
        operation["state"],
        what(operation),
        str(operation["vm_count"]),
        approved(operation["events"]),
        operation["not_before"],
        waits[0] + more if waits else _nothing_done(operation),
    )


def _nothing_done(operation: Json) -> str:
    """Return the reason why an operation called no driver; empty for others."""
    return operation["note"] if operation.get("no_driver_call") else ""


def event_row(event: Json) -> tuple[str, ...]:
    """Return an event's cells."""
    return (
        event["EventId"],
        event["EventStatus"],
        event["EventType"],
        event["scope"],
        " ".join(event["vms"]),
        _rfc_3339(event["NotBefore"]),
        event["approved_by"] or "",
        event["operation"],
    )


def _rfc_3339(http_date: str) -> str:
    """Return a time of the protocol in the form of all other times; empty if there is
    none."""
    return format_instant(parse_http_date(http_date)) if http_date else ""


def campaign_row(campaign: Json) -> tuple[str, ...]:
    """Return a campaign's cells."""
    halted = campaign["halted"]
    return (
        campaign["name"],
        campaign["state"],
        f"{campaign['done']:,}/{campaign['hosts']:,}",
        f"{campaign['stage']}/{len(campaign['stages'])}",
        str(campaign["in_flight"]),
        str(len(campaign["failed"])),
        halted["message"] if halted else campaign["waits_for"],
    )


def campaign_row_with_end(campaign: Json) -> tuple[str, ...]:
    """Return a campaign's cells with its expected end, or that it is unknown."""
    eta = campaign["eta"]
    end = "-"
    if eta is not None:
        end = "unknown" if eta["at"] is None else eta["at"]
    *first, waits_for = campaign_row(campaign)
    return (*first, end, waits_for)


def rollout_row(row: Json) -> tuple[str, ...]:
    """Return a rollout's cells."""
    states: Mapping[str, int] = row["states"]
    visits: Mapping[str, int] = row["visits"]
    counts_text = ", ".join(f"{number:,} {state}" for state, number in states.items())
    if visits:
        some = ", ".join(f"{number:,} {state}" for state, number in visits.items())
        counts_text += f"; visits: {some}"
    return (
        row["rollout"],
        row["state"],
        row["kind"],
        f"{states.get('Done', 0):,}/{sum(states.values()):,}",
        counts_text,
        row["created"],
        row["actor"],
        first_line(row["reason"]),
    )


OPERATIONS = Listing(
    path="operations",
    noun="operation",
    empty="no open operations",
    columns=(
        "OPERATION",
        "STATE",
        "WHAT",
        "VMS",
        "APPROVED",
        "NOT BEFORE",
        "WAITS FOR",
    ),
    essential=3,
    row=operation_row,
    key="operation",
    state="state",
    order="not_before",
    ended="ended",
    times=("created", "started", "impact_ended", "ended"),
)
EVENTS = Listing(
    path="events",
    noun="event",
    empty="no events",
    columns=(
        "EVENT",
        "STATUS",
        "TYPE",
        "SCOPE",
        "VMS",
        "NOT BEFORE",
        "APPROVED BY",
        "OPERATION",
    ),
    essential=4,
    row=event_row,
    key="EventId",
    state="EventStatus",
    order="created",
    ended="removed",
    times=("created", "approved", "started", "removed"),
)
CAMPAIGNS = Listing(
    path="campaigns",
    noun="campaign",
    empty="no open campaigns",
    columns=(
        "CAMPAIGN",
        "STATE",
        "DONE",
        "STAGE",
        "IN FLIGHT",
        "FAILED",
        "WAITS FOR",
    ),
    essential=4,
    row=campaign_row,
    key="campaign",
    state="state",
    order="created",
    ended="ended",
    times=("created", "progressed", "ended"),
)
CAMPAIGNS_WITH_ENDS = replace(
    CAMPAIGNS,
    columns=(*CAMPAIGNS.columns[:-1], "EXPECTED END", CAMPAIGNS.columns[-1]),
    row=campaign_row_with_end,
)
"""The same with the expected ends, which the stream of changes does not have."""
ROLLOUTS = Listing(
    path="rollouts",
    noun="rollout",
    empty="no open rollouts",
    columns=(
        "ROLLOUT",
        "STATE",
        "KIND",
        "DONE",
        "OPERATIONS",
        "CREATED",
        "BY",
        "REASON",
    ),
    essential=4,
    row=rollout_row,
    key="rollout",
    state="state",
    order="created",
    times=("created",),
)
