"""`campaign plan`, `start`, `list`, `watch`, `show` and `report`."""

import csv
import io
from collections.abc import Iterable, Sequence

from forewarn.campaigns.text import PLAN_HOSTS_MAX
from forewarn.cli import campaign_plan, campaign_sums, files, output
from forewarn.cli.blackouts import blackout_line
from forewarn.cli.client import Client, Json, part
from forewarn.cli.command_table import Call, Exit
from forewarn.cli.listings import CAMPAIGNS, OPERATIONS
from forewarn.cli.lists import show as show_list
from forewarn.cli.progress import PROGRESS_PATH
from forewarn.cli.tables import second
from forewarn.cli.watching import watch as watch_list
from forewarn.clock import SystemClock
from forewarn.console.single import single_page
from forewarn.instants import SECOND, format_duration, format_instant
from forewarn.texts import count, printable

FAILED_SHOWN = 20
"""Failed hosts, and deferred hosts, in the text of a campaign."""

_RUNNING_STAGES = ("STAGE", "HOSTS", "LEFT", "STATE", "SOAK", "APPROVAL")
_RACKS = ("STAGE", "RACK", "HOSTS", "DONE", "IN FLIGHT", "WAITING", "FAILED", "SKIPPED")


def plan(call: Call) -> int:
    """Print the plan of a campaign file."""
    text, name = files.read_text(call.text("file"))
    page = call.text("html")
    is_whole = call.flag("all") or call.flag("json") or bool(page)
    body = {
        "name": name,
        "text": text,
        "hosts_max": PLAN_HOSTS_MAX if is_whole else campaign_plan.HOSTS_SHOWN,
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
        call,
        plan_,
        lambda shown_plan: campaign_plan.show(shown_plan, with_all=with_all),
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


def _started(campaign: Json) -> None:
    output.line(
        f"campaign {campaign['name']} ({campaign['campaign']}) is {campaign['state']}: "
        f"{campaign_plan.work_of(campaign)} of {count(campaign['hosts'], 'host')}"
    )
    for each in campaign["warnings"]:
        output.sentence(f"warning: {each}")
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


def _show_waits(campaign: Json) -> None:
    if campaign["waits_for"]:
        output.sentence(f"waits: {campaign['waits_for']}")
    for each in campaign["warnings"]:
        output.sentence(f"warning: {each}")


def show_campaign(campaign: Json) -> None:
    """Print a campaign: one screen, however many hosts it has."""
    output.line(
        f"{campaign['name']} ({campaign['campaign']}): {campaign['state']}, {campaign_plan.work_of(campaign)} of "
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
    _show_waits(campaign)
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
