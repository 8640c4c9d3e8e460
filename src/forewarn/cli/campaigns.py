"""`campaign plan`."""

from collections.abc import Iterator, Sequence
from typing import Any

from forewarn.campaigns.text import PLAN_HOSTS_MAX
from forewarn.cli import campaign_page, files, output
from forewarn.cli.client import Client, Json
from forewarn.cli.command_table import Call
from forewarn.cli.tables import count
from forewarn.instants import SECOND, describe_duration, format_duration

HOSTS_SHOWN = 20
"""Hosts in the text of a plan: the first stages, on one screen."""

GROUPS_SHOWN = 8
"""Values of a label on one line."""

REFUSED_SHOWN = 20
"""Hosts that cannot be done in the text of a plan; --json has more."""

_STAGES = ("STAGE", "HOSTS", "UP TO", "SOAK", "APPROVAL", "BEGINS", "ENDS")
_HOSTS = ("HOST", "STAGE", "SET", "VMS", "BEGINS", "ENDS")


def plan(call: Call) -> int:
    """Print the plan of a campaign file."""
    text, name = files.read_text(call.text("file"))
    page = call.text("html")
    is_whole = call.flag("all") or call.flag("json") or bool(page)
    body = {
        "name": name,
        "text": text,
        "hosts_max": PLAN_HOSTS_MAX if is_whole else HOSTS_SHOWN,
    }
    found = Client.of(call).post("campaigns/plan", body)
    if page:
        files.write_text(page, campaign_page.page(found))
    with_all = call.flag("all")
    return output.shown(call, found, lambda told: _show(told, with_all=with_all))


def _show(told: Json, *, with_all: bool) -> None:
    """Print a plan for a person."""
    output.line(
        f"campaign {told['campaign']}: {told['impact']} of "
        f"{count(told['host_count'], 'host')} with {count(told['vm_count'], 'VM')} of "
        f"{count(told['tenant_count'], 'tenant')}"
    )
    for each in (*_groups(told), *_tenants(told), *told["limits"]):
        output.line(f"  {each}")
    output.line()
    output.table("no stages", _STAGES, map(_stage, told["stages"], _numbers()))
    output.line()
    shown = told["hosts"] if with_all else told["hosts"][:HOSTS_SHOWN]
    left = told["host_count"] - len(shown)
    rest = f"and {count(left, 'more host')}: --all prints all of them" if left else ""
    output.table("no hosts", _HOSTS, map(_host, shown), rest)
    output.line()
    for each in (*_pace(told), *_times(told), *_refused(told)):
        output.line(each)
    for each in told["warnings"]:
        output.line(f"warning: {each}")
    output.line(f"plan {told['digest']}; nothing was announced or changed")


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def _groups(told: Json) -> Iterator[str]:
    for label, values in told["counts"].items():
        shown = ", ".join(
            f"{each['value'] or '(none)'} {each['hosts']:,}"
            for each in values[:GROUPS_SHOWN]
        )
        left = len(values) - GROUPS_SHOWN
        yield f"{label}: {shown}" + (f" and {left} more" if left > 0 else "")


def _tenants(told: Json) -> Iterator[str]:
    found: Sequence[Json] = told["tenants"]
    if found:
        shown = ", ".join(f"{each['tenant']} {each['vms']:,}" for each in found)
        left = told["tenant_count"] - len(found)
        yield f"VMs of tenants: {shown}" + (f" and {left:,} more" if left else "")


def _stage(stage: Json, number: int) -> Sequence[str]:
    soak = format_duration(round(stage["soak_seconds"] * SECOND))
    return (
        str(number),
        f"{stage['host_count']:,}",
        f"{stage['up_to']:,}",
        soak if stage["soak_seconds"] else "-",
        "yes" if stage["approval"] else "-",
        stage["begins"],
        stage["ends"],
    )


def _host(host: Json) -> Sequence[str]:
    return (
        host["host"],
        str(host["stage"]),
        str(host["set"]),
        str(host["vms"]),
        host["begins"],
        host["ends"],
    )


def _pace(told: Json) -> Iterator[str]:
    """Yield the constraint that binds, and the next ones."""
    first, *others = told["bounds"]
    yield f"binds: {first['message']}: at least {count(first['rounds'], 'round')}"
    for each in others:
        yield f"  then {each['message']}: {count(each['rounds'], 'round')}"
    sets, least = told["sets"], told["sets_at_least"]
    best = "the minimum" if sets == least else f"at least {least:,} are needed"
    yield f"hosts that can be in work together: {count(sets, 'set')}, {best}"


def _times(told: Json) -> Iterator[str]:
    for opening in told["openings"]:
        yield f"window: {opening['opens']} to {opening['closes']}"
    yield from (
        f"{name}: ends {_when(told[key])}"
        for key, name in (("typical", "typical hosts"), ("slow", "slow hosts"))
    )


def _when(found: Any) -> str:
    return f"{found['ends']}, in {describe_duration(round(found['seconds'] * SECOND))}"


def _refused(told: Json) -> Iterator[str]:
    total = told["refused_count"]
    if not total:
        return
    yield f"{count(total, 'selected host')} cannot be done now and would be left out:"
    shown = told["refused"][:REFUSED_SHOWN]
    for each in shown:
        yield f"  {each['host']}: {each['message']}"
    if total > len(shown):
        reasons = ", ".join(
            f"{number:,} {reason}"
            for reason, number in told["refused_by_reason"].items()
        )
        yield f"  and {total - len(shown):,} more; in all {reasons}"
