"""The figures of a campaign as texts, for its report and for messages of webhooks.

They are made from the sums of its attempts, which have the form of the API.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from forewarn.instants import MINUTE, SECOND, describe_duration
from forewarn.texts import count

SCOPES_SHOWN = 3
"""Scopes that are named in a line."""


def figures(sums: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield downtime, moves, notice and approvals, each with its name."""
    minutes = sums["vm_down_seconds"] * SECOND / MINUTE
    yield "Downtime", f"{minutes:,.1f} VM minutes of {count(sums['vms'], 'VM')}"
    several = sums.get("several_domains_down_count")
    if several is not None:
        yield "Scopes with two fault domains down", f"{several:,}{_named(sums)}"
    if moves := sums["moves_per_vm"]:
        spread = ", ".join(
            f"{count(vms, 'VM')} moved {count(int(times), 'time')}"
            for times, vms in moves.items()
        )
        yield "Moves", spread
    if noticed := sums["noticed"]:
        notice_given, used = (
            duration(sums[f"notice_{word}_seconds"] / noticed)
            for word in ("given", "used")
        )
        yield "Notice", f"{notice_given} given on average, {used} used"
    early = sums["approvals_early"]
    share = f", {early:,} before NotBefore" if early else ""
    events = count(sums["events"], "event")
    yield "Approvals", f"{sums['approvals']:,} of {events}{share}"
    if deferrals := sums.get("deferrals"):
        hosts = count(sums["hosts_deferred"], "host")
        yield "Deferrals", f"{deferrals:,} by tenants, of {hosts}"


_WAITS = {
    "turn": "their turn",
    "deferral": "deferrals of tenants",
    "window": "windows of tenants",
    "closed": "windows and blackouts of the campaign",
    "soak": "soaks",
    "stage_approval": "approvals of stages",
    "paused": "a pause",
    "halted": "a halt",
    "failed": "a retry after a failure",
}
_NOTICES = {
    "approval": "approvals of tenants, or NotBefore",
    "window": "windows of tenants",
    "start": "their start after it",
}


def waits(sums: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what hosts waited for before their notices and after them, with the times.

    The longest time comes first.
    """
    for name, words, times in (
        ("Waited before notices for", _WAITS, sums.get("waiting_seconds", {})),
        ("Waited after notices for", _NOTICES, sums.get("notice_seconds", {})),
    ):
        ordered = sorted(words, key=lambda cause: -times.get(cause, 0))
        parts = [
            f"{words[cause]} {duration(times[cause])}"
            for cause in ordered
            if round(times.get(cause, 0))
        ]
        if parts:
            yield name, ", ".join(parts)


def _named(sums: Mapping[str, Any]) -> str:
    """Return the first scopes of which several fault domains were down."""
    shown = sums["several_domains_down"][:SCOPES_SHOWN]
    left = sums["several_domains_down_count"] - len(shown)
    more = f" and {left:,} more" if left else ""
    return f": {', '.join(shown)}{more}" if shown else ""


def duration(seconds: float) -> str:
    """Return a span of the sums, to the second."""
    return describe_duration(round(seconds) * SECOND)
