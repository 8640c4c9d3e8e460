"""The plan of a campaign as text."""

from collections.abc import Iterator, Sequence
from typing import Any

from forewarn.cli import output
from forewarn.cli.blackouts import blackout_lines
from forewarn.cli.client import Json
from forewarn.instants import SECOND, describe_duration, format_duration
from forewarn.problems import listed
from forewarn.texts import count

HOSTS_SHOWN = 20
"""Hosts in the text of a plan: the first stages, on one screen."""

GROUPS_SHOWN = 8
"""Values of a label on one line."""

REFUSED_SHOWN = 20
"""Hosts that cannot be done in the text of a plan; --json has more."""

HELD_SHOWN = 10
"""Hosts of another campaign in the text of a plan: one line; --json has more."""

MODELS_SHOWN = 3
"""Models of hosts on the line about measured durations."""

_STAGES = ("STAGE", "HOSTS", "UP TO", "SOAK", "APPROVAL", "BEGINS", "ENDS")
_HOSTS = ("HOST", "STAGE", "SET", "VMS", "BEGINS", "ENDS")


def work_of(campaign: Json) -> str:
    """Return the work of a campaign: `reboot`, or visits that VMs do not notice."""
    return (
        "visits without impact" if campaign["impact"] == "none" else campaign["impact"]
    )


def show(plan_: Json, *, with_all: bool) -> None:
    """Print a plan for a person."""
    output.line(
        f"campaign {plan_['campaign']}: {work_of(plan_)} of "
        f"{count(plan_['host_count'], 'host')} with {count(plan_['vm_count'], 'VM')} of "
        f"{count(plan_['tenant_count'], 'tenant')}"
    )
    for line in (*_groups(plan_), *_tenants(plan_), *plan_["limits"]):
        output.line(f"  {line}")
    output.line()
    output.table("no stages", _STAGES, map(_stage, plan_["stages"], _numbers()))
    output.line()
    shown = plan_["hosts"] if with_all else plan_["hosts"][:HOSTS_SHOWN]
    left = plan_["host_count"] - len(shown)
    rest = f"and {count(left, 'more host')}: --all prints all of them" if left else ""
    output.table("no hosts", _HOSTS, map(_host, shown), rest)
    output.line()
    sections = (_pace, _times, _refused, _apart, _held)
    for text in (line for lines in sections for line in lines(plan_)):
        output.line(text)
    for warning in plan_["warnings"]:
        output.sentence(f"warning: {warning}")
    output.line(f"plan {plan_['digest']}; nothing was announced or changed")


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def _groups(plan_: Json) -> Iterator[str]:
    for label, values in plan_["counts"].items():
        shown = ", ".join(
            f"{value['value'] or '(none)'} {value['hosts']:,}"
            for value in values[:GROUPS_SHOWN]
        )
        left = len(values) - GROUPS_SHOWN
        yield f"{label}: {shown}" + (f" and {left} more" if left > 0 else "")


def _tenants(plan_: Json) -> Iterator[str]:
    tenants: Sequence[Json] = plan_["tenants"]
    if tenants:
        shown = ", ".join(f"{tenant['tenant']} {tenant['vms']:,}" for tenant in tenants)
        left = plan_["tenant_count"] - len(tenants)
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


def _pace(plan_: Json) -> Iterator[str]:
    """Yield the constraint that binds, and the next ones."""
    first, *others = plan_["bounds"]
    yield f"binds: {first['message']}: at least {count(first['rounds'], 'round')}"
    for other in others:
        yield f"  then {other['message']}: {count(other['rounds'], 'round')}"
    sets, least = plan_["sets"], plan_["sets_at_least"]
    best = "the minimum" if sets == least else f"at least {least:,} are needed"
    yield f"hosts that can be in work together: {count(sets, 'set')}, {best}"


def _times(plan_: Json) -> Iterator[str]:
    for opening in plan_["openings"]:
        yield f"window: {opening['opens']} to {opening['closes']}"
    yield from blackout_lines(plan_["blackouts"])
    if plan_["measured"]:
        yield _measured(plan_["measured"])
    yield from (
        f"{name}: ends {_when(plan_[key])}"
        for key, name in (("typical", "typical hosts"), ("slow", "slow hosts"))
    )


def _measured(durations: Json) -> str:
    """Return the durations of past work, which the forecasts use."""

    def span(seconds: float) -> str:
        return describe_duration(round(seconds) * SECOND)

    models = (
        f" of model {listed(durations['models'], MODELS_SHOWN)}"
        if durations["models"]
        else ""
    )
    slow, used = durations["work_slow_seconds"], durations["slow_used_seconds"]
    longer = f" (the plan uses {span(used)}, as the file says)" if used > slow else ""
    work = f"step {durations['step']}" if durations["step"] else "work"
    text = (
        f"measured on {count(durations['hosts'], 'host')}{models}: {work} "
        f"typically {span(durations['work_typical_seconds'])}, "
        f"slowest {span(slow)}{longer}"
    )
    if durations["notice_typical_seconds"] is None:
        return text
    return (
        f"{text}; notice time used: typically {span(durations['notice_typical_seconds'])}, "
        f"slowest {span(durations['notice_slow_seconds'])}"
    )


def _when(end: Any) -> str:
    left = describe_duration(round(end["seconds"]) * SECOND)
    return f"{end['ends']}, in {left}"


def _refused(plan_: Json) -> Iterator[str]:
    total = plan_["refused_count"]
    if not total:
        return
    yield f"{count(total, 'selected host')} cannot be done now and would be left out:"
    shown = plan_["refused"][:REFUSED_SHOWN]
    for refusal in shown:
        yield f"  {refusal['host']}: {refusal['message']}"
    if total > len(shown):
        reasons = ", ".join(
            f"{number:,} {reason}"
            for reason, number in plan_["refused_by_reason"].items()
        )
        yield f"  and {total - len(shown):,} more; in all {reasons}"


def _apart(plan_: Json) -> Iterator[str]:
    """Yield which hosts would wait without end for windows, and what to do about it."""
    for group in plan_["apart"]:
        shown = listed(group["hosts"], HELD_SHOWN)
        left = group["host_count"] - len(group["hosts"])
        yield group["message"]
        yield f"  {shown}{f' (and {left:,} more)' if left else ''}"
        yield f"  hint: {group['hint']}"


def _held(plan_: Json) -> Iterator[str]:
    """Yield which other campaigns have any of the hosts, and what to do about it."""
    for hold in plan_["held"]:
        shown = listed(hold["hosts"], HELD_SHOWN)
        left = hold["host_count"] - len(hold["hosts"])
        more = f" (and {left:,} more)" if left else ""
        begin = "the start would be refused: " if hold["refuses_start"] else ""
        yield f"{begin}{hold['message']}"
        yield f"  {hold['name']} ({hold['campaign']}, {hold['state']}): {shown}{more}"
        if hold["hint"]:
            yield f"  hint: {hold['hint']}"
