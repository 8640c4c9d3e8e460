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
    found = Client.of(call).post(
        "campaigns/plan",
        body,
        doing=f"planning {name}",
        is_question=True,
        progress="" if call.flag("json") else PROGRESS_PATH,
    )
    if page:
        title = f"plan: {printable(found['campaign'])}"
        files.write_text(
            page, single_page(title, module="js/plan.js", view="plan", data=found)
        )
    with_all = call.flag("all")
    return output.shown(call, found, lambda told: _show(told, with_all=with_all))


def start(call: Call) -> int:
    """Start a campaign."""
    text, name = files.read_text(call.text("file"))
    body = {
        "name": name,
        "text": text,
        "digest": call.text("plan"),
        "reason": call.text("reason"),
    }
    told = Client.of(call).post("campaigns", body)
    return output.shown(call, told, _started)


def work_of(told: Json) -> str:
    """Return the work of a campaign: `reboot`, or visits that VMs do not notice."""
    return "visits without impact" if told["impact"] == "none" else told["impact"]


def _started(told: Json) -> None:
    output.line(
        f"campaign {told['name']} ({told['campaign']}) is {told['state']}: "
        f"{work_of(told)} of {count(told['hosts'], 'host')}"
    )
    output.line(f"next: forewarn campaign show {told['name']}")


def list_(call: Call) -> int:
    """List campaigns, or watch them."""
    if call.flag("watch"):
        return watch_list(call, CAMPAIGNS, {})
    asked = {"all": "true"} if call.flag("all") else {}
    found = Client.of(call).every("campaigns", "campaigns", asked)
    return show_list(call, CAMPAIGNS, CAMPAIGNS.sorted(found))


def watch(call: Call) -> int:
    """Show one campaign and its changes until a signal."""
    told = Client.of(call).get(f"campaigns/{part(call.text('campaign'))}")
    return watch_list(call, CAMPAIGNS, {"rollout": told["rollout"]})


def show(call: Call) -> int:
    """Show one campaign."""
    client = Client.of(call)
    told = client.get(f"campaigns/{part(call.text('campaign'))}")
    racks: Json = {}
    if call.flag("racks"):
        racks = client.get(f"campaigns/{part(told['campaign'])}/racks")
    operations: Sequence[Json] = ()
    if call.flag("all"):
        asked = {"rollout": told["rollout"], "all": "true"}
        operations = OPERATIONS.sorted(client.every("operations", "operations", asked))
    if call.flag("json"):
        more = {"operations": operations} if call.flag("all") else {}
        output.document({**told, **racks, **more})
        return Exit.DONE
    show_campaign(told)
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
    told = client.get(f"campaigns/{part(call.text('campaign'))}")
    path = f"campaigns/{part(told['campaign'])}"
    sums = client.get(f"{path}/sums")
    attempts = client.every(f"{path}/report", "attempts", {})
    if call.flag("json"):
        output.document({**told, "sums": sums, "attempts": list(attempts)})
        return Exit.DONE
    if file := call.text("csv"):
        files.write_text(file, _csv(attempts))
    if file := call.text("html"):
        at = format_instant(SystemClock().now())
        page = single_page(
            f"report: {printable(told['name'])}",
            module="js/paper.js",
            view="paper",
            data={"campaign": told, "sums": sums, "at": at},
        )
        files.write_text(file, page)
    if call.text("csv") or call.text("html"):
        return Exit.DONE
    show_campaign(told)
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


def show_campaign(told: Json) -> None:
    """Print a campaign: one screen, however many hosts it has."""
    output.line(
        f"{told['name']} ({told['campaign']}): {told['state']}, {work_of(told)} of "
        f"{count(told['hosts'], 'host')}"
    )
    output.line(
        f"started by {told['actor']} at {second(told['created'])}: {told['reason']}"
    )
    counts = (
        (told["done"], "done"),
        (told["in_flight"], "in flight"),
        (told["waiting"], "waiting"),
        *([(told["deferred_count"], "deferred")] if told["deferred_count"] else []),
        (len(told["failed"]), "failed"),
        (told["skipped"], "skipped"),
    )
    output.line(", ".join(f"{number:,} {name}" for number, name in counts))
    _print_terms(told)
    if told["vms_down"]:
        most = told["vms_down_max"]
        limit = "" if most is None else f", of at most {most:,} tolerated"
        output.line(f"VMs down after the work: {told['vms_down']:,}{limit}")
    if told["drift"]:
        output.line(
            f"drift: {count(told['drift'], 'new host')} of the fleet would be selected: "
            f"forewarn campaign add {told['name']} --drift --reason TEXT"
        )
    if told["halted"]:
        halted = told["halted"]
        output.sentence(
            f"halted by {halted['by']} at {second(halted['at'])}: {halted['message']}"
        )
    for each in told["pauses"]:
        output.sentence(
            f"paused by {each['by']} at {second(each['at'])}: {each['reason']}"
        )
    for window in told["windows"]:
        output.line(f"window: {window}")
    for blackout in told["blackouts"]:
        output.line(blackout_line(blackout))
    if told["waits_for"]:
        output.sentence(f"waits: {told['waits_for']}")
    output.line()
    stages = [_running_stage(told, number) for number in range(len(told["stages"]))]
    output.table("no stages", _RUNNING_STAGES, stages)
    shown = told["failed"][:FAILED_SHOWN]
    if shown:
        output.line()
    for each in shown:
        why = each["reason"] or f"see forewarn explain {each['operation']}"
        output.sentence(f"failed: {each['host']}: {why}")
    if left := len(told["failed"]) - len(shown):
        output.line(f"and {count(left, 'more failed host')}")
    if shown and not told["ended"]:
        words = f"{told['name']} {shown[0]['host']}"
        output.line(f"next: forewarn campaign retry {words}")
        output.line(f"  or: forewarn campaign skip {words} --reason TEXT")
    _show_deferred(told)


def _show_racks(told: Json) -> None:
    """Print the hosts by stage and rack."""
    left = told["racks_left_out"]
    rows = (
        (
            str(each["stage"]),
            each["rack"] or "-",
            *(f"{each[name.lower().replace(' ', '_')]:,}" for name in _RACKS[2:]),
        )
        for each in told["racks"]
    )
    rest = f"and {count(left, 'more row')}" if left else ""
    output.table("no hosts", _RACKS, rows, rest)


def _show_deferred(told: Json) -> None:
    """Print the hosts that wait for another attempt to move their VMs away."""
    shown = told["deferred"][:FAILED_SHOWN]
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
    if left := told["deferred_count"] - len(shown):
        output.line(f"and {count(left, 'more deferred host')}")


def _print_terms(told: Json) -> None:
    """Print how many hosts can be in flight, and whether windows count."""
    rank = f", priority {told['priority']}" if told["priority"] else ""
    output.line(f"{_budgets(told['budgets'])}{rank}")
    if told["emergency"]:
        output.line("emergency: windows, blackouts and deferrals do not stop it")


def _budgets(told: Json) -> str:
    """Return the budgets as in the campaign file."""
    named = [
        f"{key} {value}"
        for key in ("in_flight", "unavailable", "tenant_vms", "overlap_notice")
        if (value := told[key])
    ]
    named += [f"{label} {most}" for label, most in told["by"].items()]
    return f"budgets: {', '.join(named)}"


def _running_stage(told: Json, place: int) -> Sequence[str]:
    stage, number = told["stages"][place], place + 1
    state = "waits"
    if number < told["stage"] or told["state"] == "Done":
        state = "done"
    elif number == told["stage"]:
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


def _show(told: Json, *, with_all: bool) -> None:
    """Print a plan for a person."""
    output.line(
        f"campaign {told['campaign']}: {work_of(told)} of "
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
    found = (_pace, _times, _refused, _apart, _held)
    for each in (line for lines in found for line in lines(told)):
        output.line(each)
    for each in told["warnings"]:
        output.sentence(f"warning: {each}")
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
    yield from blackout_lines(told["blackouts"])
    if told["measured"]:
        yield _measured(told["measured"])
    yield from (
        f"{name}: ends {_when(told[key])}"
        for key, name in (("typical", "typical hosts"), ("slow", "slow hosts"))
    )


def _measured(found: Json) -> str:
    """Return the durations of past work, which the forecasts use."""

    def span(seconds: float) -> str:
        return describe_duration(round(seconds) * SECOND)

    models = (
        f" of model {listed(found['models'], MODELS_SHOWN)}" if found["models"] else ""
    )
    text = (
        f"measured on {count(found['hosts'], 'host')}{models}: work "
        f"{span(found['work_typical_seconds'])} typical, "
        f"{span(found['work_slow_seconds'])} slow"
    )
    if found["notice_typical_seconds"] is None:
        return text
    return (
        f"{text}; notice used {span(found['notice_typical_seconds'])} typical, "
        f"{span(found['notice_slow_seconds'])} slow"
    )


def _when(found: Any) -> str:
    left = describe_duration(round(found["seconds"]) * SECOND)
    return f"{second(found['ends'])}, in {left}"


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


def _apart(told: Json) -> Iterator[str]:
    """Yield which hosts would wait without end for windows, and what to do about it."""
    for each in told["apart"]:
        shown = listed(each["hosts"], HELD_SHOWN)
        left = each["host_count"] - len(each["hosts"])
        yield each["message"]
        yield f"  {shown}{f' (and {left:,} more)' if left else ''}"
        yield f"  hint: {each['hint']}"


def _held(told: Json) -> Iterator[str]:
    """Yield which other campaigns have any of the hosts, and what to do about it."""
    for each in told["held"]:
        shown = listed(each["hosts"], HELD_SHOWN)
        left = each["host_count"] - len(each["hosts"])
        more = f" (and {left:,} more)" if left else ""
        begin = "the start would be refused: " if each["refuses_start"] else ""
        yield f"{begin}{each['message']}"
        yield f"  {each['name']} ({each['campaign']}, {each['state']}): {shown}{more}"
        if each["hint"]:
            yield f"  hint: {each['hint']}"
