"""`campaign plan`, `start`, `list`, `watch`, `show` and `report`."""

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from forewarn.campaigns.text import PLAN_HOSTS_MAX
from forewarn.cli import campaign_sums, files, output
from forewarn.cli.blackouts import blackout_line, blackout_lines
from forewarn.cli.client import Client, Json, part
from forewarn.cli.command_table import Call, Exit
from forewarn.cli.listings import CAMPAIGNS, OPERATIONS
from forewarn.cli.lists import show as show_list
from forewarn.cli.progress import PROGRESS_PATH
from forewarn.cli.tables import second
from forewarn.cli.watching import watch as watch_list
from forewarn.clock import SystemClock
from forewarn.console.single import single_page
from forewarn.instants import SECOND, describe_duration, format_duration, format_instant
from forewarn.problems import listed
from forewarn.texts import count, printable

HOSTS_SHOWN = 20
"""Hosts in the text of a plan: the first stages, on one screen."""

GROUPS_SHOWN = 8
"""Values of a label on one line."""

REFUSED_SHOWN = 20
"""Hosts that cannot be done in the text of a plan; --json has more."""

HELD_SHOWN = 10
"""Hosts of another campaign in the text of a plan: one line; --json has more."""

FAILED_SHOWN = 20
"""Failed hosts, and deferred hosts, in the text of a campaign."""

MODELS_SHOWN = 3
"""Models of hosts on the line about measured durations."""

_RUNNING_STAGES = ("STAGE", "HOSTS", "LEFT", "STATE", "SOAK", "APPROVAL")
_RACKS = ("STAGE", "RACK", "HOSTS", "DONE", "IN FLIGHT", "WAITING", "FAILED", "SKIPPED")
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
    plan_ = Client.of(call).post(
        "campaigns/plan",
        body,
        doing=f"planning {name}",
        is_question=True,
        progress="" if call.flag("json") else PROGRESS_PATH,
    )
    if page:
        title = f"plan: {printable(plan_['campaign'])}"
        files.write_text(
            page, single_page(title, module="js/plan.js", view="plan", data=plan_)
        )
    with_all = call.flag("all")
    return output.shown(
        call, plan_, lambda shown_plan: _show(shown_plan, with_all=with_all)
    )


def start(call: Call) -> int:
    """Start a campaign."""
    text, name = files.read_text(call.text("file"))
    body = {
        "name": name,
        "text": text,
        "digest": call.text("plan"),
        "reason": call.text("reason"),
    }
    campaign = Client.of(call).post("campaigns", body)
    return output.shown(call, campaign, _started)


def work_of(campaign: Json) -> str:
    """Return the work of a campaign: `reboot`, or visits that VMs do not notice."""
    return (
        "visits without impact" if campaign["impact"] == "none" else campaign["impact"]
    )


def _started(campaign: Json) -> None:
    output.line(
        f"campaign {campaign['name']} ({campaign['campaign']}) is {campaign['state']}: "
        f"{work_of(campaign)} of {count(campaign['hosts'], 'host')}"
    )
    output.line(f"next: forewarn campaign show {campaign['name']}")


def list_(call: Call) -> int:
    """List campaigns, or watch them."""
    if call.flag("watch"):
        return watch_list(call, CAMPAIGNS, {})
    query = {"all": "true"} if call.flag("all") else {}
    campaigns = Client.of(call).every("campaigns", "campaigns", query)
    return show_list(call, CAMPAIGNS, CAMPAIGNS.sorted(campaigns))


def watch(call: Call) -> int:
    """Show one campaign and its changes until a signal."""
    campaign = Client.of(call).get(f"campaigns/{part(call.text('campaign'))}")
    return watch_list(call, CAMPAIGNS, {"rollout": campaign["rollout"]})


def show(call: Call) -> int:
    """Show one campaign."""
    client = Client.of(call)
    campaign = client.get(f"campaigns/{part(call.text('campaign'))}")
    racks: Json = {}
    if call.flag("racks"):
        racks = client.get(f"campaigns/{part(campaign['campaign'])}/racks")
    operations: Sequence[Json] = ()
    if call.flag("all"):
        query = {"rollout": campaign["rollout"], "all": "true"}
        operations = OPERATIONS.sorted(client.every("operations", "operations", query))
    if call.flag("json"):
        more = {"operations": operations} if call.flag("all") else {}
        output.document({**campaign, **racks, **more})
        return Exit.DONE
    show_campaign(campaign)
    if racks:
        output.line()
        _show_racks(racks)
    if call.flag("all"):
        output.line()
        return show_list(call, OPERATIONS, operations)
    return Exit.DONE


_CSV = (
    "host",
    "stage",
    "operation",
    "state",
    "announced",
    "not_before",
    "started",
    "ended",
    "notice_seconds",
    "notice_used_seconds",
    "work_seconds",
    "recovery_seconds",
    "down_seconds",
    "note",
)
"""Columns of a report as CSV: one row for each attempt."""


def report(call: Call) -> int:
    """Show the results of a campaign, which can still run."""
    client = Client.of(call)
    campaign = client.get(f"campaigns/{part(call.text('campaign'))}")
    path = f"campaigns/{part(campaign['campaign'])}"
    sums = client.get(f"{path}/sums")
    attempts = client.every(f"{path}/report", "attempts", {})
    if call.flag("json"):
        output.document({**campaign, "sums": sums, "attempts": list(attempts)})
        return Exit.DONE
    if file := call.text("csv"):
        files.write_text(file, _csv(attempts))
    if file := call.text("html"):
        at = format_instant(SystemClock().now())
        page = single_page(
            f"report: {printable(campaign['name'])}",
            module="js/paper.js",
            view="paper",
            data={"campaign": campaign, "sums": sums, "at": at},
        )
        files.write_text(file, page)
    if call.text("csv") or call.text("html"):
        return Exit.DONE
    show_campaign(campaign)
    output.line()
    for line in campaign_sums.lines(sums):
        output.sentence(line)
    return Exit.DONE


def _csv(attempts: Iterable[Json]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*_CSV, "vms", "approvals"])
    for each in attempts:
        cells = ["" if each[name] is None else each[name] for name in _CSV]
        rows.writerow([*cells, len(each["vms"]), len(each["approvals"])])
    return text.getvalue()


def show_campaign(campaign: Json) -> None:
    """Print a campaign: one screen, however many hosts it has."""
    output.line(
        f"{campaign['name']} ({campaign['campaign']}): {campaign['state']}, {work_of(campaign)} of "
        f"{count(campaign['hosts'], 'host')}"
    )
    output.line(
        f"started by {campaign['actor']} at {second(campaign['created'])}: {campaign['reason']}"
    )
    counts = (
        (campaign["done"], "done"),
        (campaign["in_flight"], "in flight"),
        (campaign["waiting"], "waiting"),
        *(
            [(campaign["deferred_count"], "deferred")]
            if campaign["deferred_count"]
            else []
        ),
        (len(campaign["failed"]), "failed"),
        (campaign["skipped"], "skipped"),
    )
    output.line(", ".join(f"{number:,} {name}" for number, name in counts))
    _print_terms(campaign)
    if campaign["vms_down"]:
        most = campaign["vms_down_max"]
        limit = "" if most is None else f", of at most {most:,} tolerated"
        output.line(f"VMs down after the work: {campaign['vms_down']:,}{limit}")
    if campaign["drift"]:
        output.line(
            f"drift: {count(campaign['drift'], 'new host')} of the fleet would be selected: "
            f"forewarn campaign add {campaign['name']} --drift --reason TEXT"
        )
    if campaign["halted"]:
        halted = campaign["halted"]
        output.sentence(
            f"halted by {halted['by']} at {second(halted['at'])}: {halted['message']}"
        )
    for each in campaign["pauses"]:
        output.sentence(
            f"paused by {each['by']} at {second(each['at'])}: {each['reason']}"
        )
    for window in campaign["windows"]:
        output.line(f"window: {window}")
    for blackout in campaign["blackouts"]:
        output.line(blackout_line(blackout))
    if campaign["waits_for"]:
        output.sentence(f"waits: {campaign['waits_for']}")
    output.line()
    stages = [
        _running_stage(campaign, number) for number in range(len(campaign["stages"]))
    ]
    output.table("no stages", _RUNNING_STAGES, stages)
    shown = campaign["failed"][:FAILED_SHOWN]
    if shown:
        output.line()
    for each in shown:
        why = each["reason"] or f"see forewarn explain {each['operation']}"
        output.sentence(f"failed: {each['host']}: {why}")
    if left := len(campaign["failed"]) - len(shown):
        output.line(f"and {count(left, 'more failed host')}")
    if shown and not campaign["ended"]:
        names = f"{campaign['name']} {shown[0]['host']}"
        output.line(f"next: forewarn campaign retry {names}")
        output.line(f"  or: forewarn campaign skip {names} --reason TEXT")
    _show_deferred(campaign)


def _show_racks(campaign: Json) -> None:
    """Print the hosts by stage and rack."""
    left = campaign["racks_left_out"]
    rows = (
        (
            str(each["stage"]),
            each["rack"] or "-",
            *(f"{each[name.lower().replace(' ', '_')]:,}" for name in _RACKS[2:]),
        )
        for each in campaign["racks"]
    )
    rest = f"and {count(left, 'more row')}" if left else ""
    output.table("no hosts", _RACKS, rows, rest)


def _show_deferred(campaign: Json) -> None:
    """Print the hosts that wait for another attempt to move their VMs away."""
    shown = campaign["deferred"][:FAILED_SHOWN]
    if shown:
        output.line()
    for each in shown:
        when = (
            f"tried again from {second(each['until'])} on" if each["until"] else "next"
        )
        output.sentence(
            f"deferred: {each['host']}, {each['attempts']} of {each['attempts_max']} "
            f"attempts, {when} (forewarn explain {each['operation']})"
        )
    if left := campaign["deferred_count"] - len(shown):
        output.line(f"and {count(left, 'more deferred host')}")


def _print_terms(terms: Json) -> None:
    """Print how many hosts can be in flight, and whether windows count."""
    rank = f", priority {terms['priority']}" if terms["priority"] else ""
    output.line(f"{_budgets(terms['budgets'])}{rank}")
    if terms["emergency"]:
        output.line("emergency: windows, blackouts and deferrals do not stop it")


def _budgets(budgets: Json) -> str:
    """Return the budgets as in the campaign file."""
    named = [
        f"{key} {value}"
        for key in ("in_flight", "unavailable", "tenant_vms", "overlap_notice")
        if (value := budgets[key])
    ]
    named += [f"{label} {most}" for label, most in budgets["by"].items()]
    return f"budgets: {', '.join(named)}"


def _running_stage(campaign: Json, place: int) -> Sequence[str]:
    stage, number = campaign["stages"][place], place + 1
    state = "waits"
    if number < campaign["stage"] or campaign["state"] == "Done":
        state = "done"
    elif number == campaign["stage"]:
        # A stage that has soaked can wait for its approval.
        state = "runs" if stage["left"] else "done"
        if stage["soaks_until"]:
            state = f"soaks until {second(stage['soaks_until'])}"
    soak = format_duration(round(stage["soak_seconds"] * SECOND))
    approval = "-"
    if stage["approval"]:
        approval = "given" if stage["approved"] else "needed"
    return (
        str(number),
        f"{stage['hosts']:,}",
        f"{stage['left']:,}",
        state,
        soak if stage["soak_seconds"] else "-",
        approval,
    )


def _show(plan_: Json, *, with_all: bool) -> None:
    """Print a plan for a person."""
    output.line(
        f"campaign {plan_['campaign']}: {work_of(plan_)} of "
        f"{count(plan_['host_count'], 'host')} with {count(plan_['vm_count'], 'VM')} of "
        f"{count(plan_['tenant_count'], 'tenant')}"
    )
    for each in (*_groups(plan_), *_tenants(plan_), *plan_["limits"]):
        output.line(f"  {each}")
    output.line()
    output.table("no stages", _STAGES, map(_stage, plan_["stages"], _numbers()))
    output.line()
    shown = plan_["hosts"] if with_all else plan_["hosts"][:HOSTS_SHOWN]
    left = plan_["host_count"] - len(shown)
    rest = f"and {count(left, 'more host')}: --all prints all of them" if left else ""
    output.table("no hosts", _HOSTS, map(_host, shown), rest)
    output.line()
    sections = (_pace, _times, _refused, _apart, _held)
    for each in (line for lines in sections for line in lines(plan_)):
        output.line(each)
    for each in plan_["warnings"]:
        output.sentence(f"warning: {each}")
    output.line(f"plan {plan_['digest']}; nothing was announced or changed")


def _numbers() -> Iterator[int]:
    number = 0
    while True:
        number += 1
        yield number


def _groups(plan_: Json) -> Iterator[str]:
    for label, values in plan_["counts"].items():
        shown = ", ".join(
            f"{each['value'] or '(none)'} {each['hosts']:,}"
            for each in values[:GROUPS_SHOWN]
        )
        left = len(values) - GROUPS_SHOWN
        yield f"{label}: {shown}" + (f" and {left} more" if left > 0 else "")


def _tenants(plan_: Json) -> Iterator[str]:
    tenants: Sequence[Json] = plan_["tenants"]
    if tenants:
        shown = ", ".join(f"{each['tenant']} {each['vms']:,}" for each in tenants)
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
        second(stage["begins"]),
        second(stage["ends"]),
    )


def _host(host: Json) -> Sequence[str]:
    return (
        host["host"],
        str(host["stage"]),
        str(host["set"]),
        str(host["vms"]),
        second(host["begins"]),
        second(host["ends"]),
    )


def _pace(plan_: Json) -> Iterator[str]:
    """Yield the constraint that binds, and the next ones."""
    first, *others = plan_["bounds"]
    yield f"binds: {first['message']}: at least {count(first['rounds'], 'round')}"
    for each in others:
        yield f"  then {each['message']}: {count(each['rounds'], 'round')}"
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
    text = (
        f"measured on {count(durations['hosts'], 'host')}{models}: work "
        f"typically {span(durations['work_typical_seconds'])}, "
        f"slowest {span(durations['work_slow_seconds'])}"
    )
    if durations["notice_typical_seconds"] is None:
        return text
    return (
        f"{text}; notice time used: typically {span(durations['notice_typical_seconds'])}, "
        f"slowest {span(durations['notice_slow_seconds'])}"
    )


def _when(end: Any) -> str:
    left = describe_duration(round(end["seconds"]) * SECOND)
    return f"{second(end['ends'])}, in {left}"


def _refused(plan_: Json) -> Iterator[str]:
    total = plan_["refused_count"]
    if not total:
        return
    yield f"{count(total, 'selected host')} cannot be done now and would be left out:"
    shown = plan_["refused"][:REFUSED_SHOWN]
    for each in shown:
        yield f"  {each['host']}: {each['message']}"
    if total > len(shown):
        reasons = ", ".join(
            f"{number:,} {reason}"
            for reason, number in plan_["refused_by_reason"].items()
        )
        yield f"  and {total - len(shown):,} more; in all {reasons}"


def _apart(plan_: Json) -> Iterator[str]:
    """Yield which hosts would wait without end for windows, and what to do about it."""
    for each in plan_["apart"]:
        shown = listed(each["hosts"], HELD_SHOWN)
        left = each["host_count"] - len(each["hosts"])
        yield each["message"]
        yield f"  {shown}{f' (and {left:,} more)' if left else ''}"
        yield f"  hint: {each['hint']}"


def _held(plan_: Json) -> Iterator[str]:
    """Yield which other campaigns have any of the hosts, and what to do about it."""
    for each in plan_["held"]:
        shown = listed(each["hosts"], HELD_SHOWN)
        left = each["host_count"] - len(each["hosts"])
        more = f" (and {left:,} more)" if left else ""
        begin = "the start would be refused: " if each["refuses_start"] else ""
        yield f"{begin}{each['message']}"
        yield f"  {each['name']} ({each['campaign']}, {each['state']}): {shown}{more}"
        if each["hint"]:
            yield f"  hint: {each['hint']}"
