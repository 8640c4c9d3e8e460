"""`campaign plan`, `start`, `list`, `watch`, `show` and `report`."""

import csv
import io
from collections.abc import Iterable, Sequence

from forewarn.campaigns.text import PLAN_HOSTS_MAX
from forewarn.cli import campaign_plan, campaign_sums, dry_runs, files, output
from forewarn.cli.blackouts import blackout_line
from forewarn.cli.client import Client, Json, part
from forewarn.cli.command_table import Call, Exit
from forewarn.cli.listings import CAMPAIGNS, CAMPAIGNS_WITH_ENDS, OPERATIONS
from forewarn.cli.lists import show as show_list
from forewarn.cli.progress import PROGRESS_PATH
from forewarn.cli.watching import watch as watch_list
from forewarn.clock import SystemClock
from forewarn.console.single import single_page
from forewarn.instants import SECOND, format_duration, format_instant
from forewarn.texts import count, printable

FAILED_SHOWN = 20
"""Failed hosts, deferred hosts, and skipped hosts in the text of a campaign."""

ENDS_ASKED_MAX = 20
"""Campaigns of a list whose expected ends are asked for: one request each, and few
campaigns are open together."""

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
    if call.flag("dry_run"):
        return dry_runs.send(call, "campaigns", body)
    campaign = Client.of(call).post("campaigns", body)
    return output.shown(call, campaign, _started)


def _started(campaign: Json) -> None:
    output.line(
        f"campaign {campaign['name']} ({campaign['campaign']}) is {campaign['state']}: "
        f"{campaign_plan.work_of(campaign)} of {count(campaign['hosts'], 'host')}"
    )
    for warning in campaign["warnings"]:
        output.sentence(f"warning: {warning}")
    output.line(f"next: forewarn campaign show {campaign['name']}")


def list_(call: Call) -> int:
    """List campaigns, or watch them."""
    if call.flag("watch"):
        return watch_list(call, CAMPAIGNS, {})
    query = {"all": "true"} if call.flag("all") else {}
    client = Client.of(call)
    campaigns = CAMPAIGNS.sorted(client.every("campaigns", "campaigns", query))
    with_ends = [
        {**campaign, "eta": _eta(client, campaign) if place < ENDS_ASKED_MAX else None}
        for place, campaign in enumerate(campaigns)
    ]
    return show_list(call, CAMPAIGNS_WITH_ENDS, with_ends)


def _eta(client: Client, campaign: Json) -> Json | None:
    """Return the expected end of a campaign; None: it has ended."""
    if campaign["ended"]:
        return None
    eta: Json = client.get(f"campaigns/{part(campaign['campaign'])}/outlook")["eta"]
    return eta


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
    eta = _eta(client, campaign)
    skips: Json = {"skipped_count": 0, "skipped": []}
    if campaign["skipped"]:
        skips = client.get(f"campaigns/{part(campaign['campaign'])}/skipped")
    operations: Sequence[Json] = ()
    if call.flag("all"):
        query = {"rollout": campaign["rollout"], "all": "true"}
        operations = OPERATIONS.sorted(client.every("operations", "operations", query))
    if call.flag("json"):
        more = {"operations": operations} if call.flag("all") else {}
        added = {"eta": eta, "skipped_hosts": skips["skipped"]}
        output.document({**campaign, **added, **racks, **more})
        return Exit.DONE
    show_campaign(campaign, eta)
    _show_skipped(skips)
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
    _show_skipped(sums)
    output.line()
    for line in campaign_sums.lines(sums):
        output.sentence(line)
    return Exit.DONE


def _csv(attempts: Iterable[Json]) -> str:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow([*_CSV, "vms", "approvals"])
    for attempt in attempts:
        cells = ["" if attempt[name] is None else attempt[name] for name in _CSV]
        rows.writerow([*cells, len(attempt["vms"]), len(attempt["approvals"])])
    return text.getvalue()


def _show_waits(campaign: Json) -> None:
    if campaign["waits_for"]:
        output.sentence(f"waits: {campaign['waits_for']}")
    for warning in campaign["warnings"]:
        output.sentence(f"warning: {warning}")


def show_campaign(campaign: Json, eta: Json | None = None) -> None:
    """Print a campaign: one screen, however many hosts it has.

    `eta` is its expected end; None: it is not shown.
    """
    # A campaign that `maintain` implies has the ID of its rollout as its name.
    name, id_ = campaign["name"], campaign["campaign"]
    output.line(
        f"{name if name == id_ else f'{name} ({id_})'}: {campaign['state']}, "
        f"{campaign_plan.work_of(campaign)} of {count(campaign['hosts'], 'host')}"
    )
    why = f": {campaign['reason']}" if campaign["reason"] else ""
    output.line(f"started by {campaign['actor']} at {campaign['created']}{why}")
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
    _show_end(campaign, eta)
    _print_terms(campaign)
    _show_findings(campaign)
    if campaign["halted"]:
        halted = campaign["halted"]
        by = halted["by"] if halted["cause"] == "operator" else "itself"
        output.sentence(f"halted by {by} at {halted['at']}: {halted['message']}")
    for pause in campaign["pauses"]:
        output.sentence(f"paused by {pause['by']} at {pause['at']}: {pause['reason']}")
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
    for failure in shown:
        why = failure["reason"] or f"see forewarn explain {failure['operation']}"
        output.sentence(f"failed: {failure['host']}: {why}")
    if left := len(campaign["failed"]) - len(shown):
        output.line(f"and {count(left, 'more failed host')}")
    if shown and not campaign["ended"]:
        names = f"{campaign['name']} {shown[0]['host']}"
        output.line(f"next: forewarn campaign retry {names}")
        output.line(f"  or: forewarn campaign skip {names} --reason TEXT")
    _show_deferred(campaign)


def _show_end(campaign: Json, eta: Json | None) -> None:
    """Print the planned end, and when the campaign ended or is expected to end."""
    if eta is not None:
        output.line(f"expected end: {expected_end(eta)}")
    if planned := campaign["planned_end"]:
        output.line(f"planned end: {planned}")
    if campaign["ended"]:
        output.line(f"ended at {campaign['ended']}")


def _show_findings(campaign: Json) -> None:
    """Print what the campaign has found: VMs that are down, overruns, and drift."""
    if campaign["vms_down"]:
        most = campaign["vms_down_max"]
        limit = "" if most is None else f", of at most {most:,} tolerated"
        output.line(f"VMs down after the work: {campaign['vms_down']:,}{limit}")
    if campaign["overran"]:
        slow = format_duration(round(campaign["slow_seconds"] * SECOND))
        output.line(
            f"overran: {count(campaign['overran'], 'host')} ended after the close of the "
            f"window; from now on {slow} must be left"
        )
    if campaign["drift"]:
        output.line(
            f"drift: {count(campaign['drift'], 'new host')} of the fleet would be selected: "
            f"forewarn campaign add {campaign['name']} --drift --reason TEXT"
        )


def expected_end(eta: Json) -> str:
    """Return when a campaign is expected to end, and by what that was computed."""
    if eta["at"] is None:
        return f"unknown ({eta['unknown']})"
    approvals = eta["approvals"]
    if_approved = (
        f", if {count(approvals, 'stage')} {'is' if approvals == 1 else 'are'} approved "
        "at once"
        if approvals
        else ""
    )
    return f"{eta['at']} ({count(eta['hosts'], 'host')} measured{if_approved})"


def _show_skipped(skips: Json) -> None:
    """Print the hosts that a campaign leaves out, with their reasons."""
    shown = skips["skipped"][:FAILED_SHOWN]
    if shown:
        output.line()
    for skip in shown:
        output.sentence(f"skipped: {skip['host']}: {skip['reason']}")
    if left := skips["skipped_count"] - len(shown):
        output.line(f"and {count(left, 'more skipped host')}")


def _show_racks(campaign: Json) -> None:
    """Print the hosts by stage and rack."""
    left = campaign["racks_left_out"]
    rows = (
        (
            str(rack["stage"]),
            rack["rack"] or "-",
            *(f"{rack[name.lower().replace(' ', '_')]:,}" for name in _RACKS[2:]),
        )
        for rack in campaign["racks"]
    )
    rest = f"and {count(left, 'more row')}" if left else ""
    output.table("no hosts", _RACKS, rows, rest)


def _show_deferred(campaign: Json) -> None:
    """Print the hosts that wait for another attempt to move their VMs away."""
    shown = campaign["deferred"][:FAILED_SHOWN]
    if shown:
        output.line()
    for deferral in shown:
        when = (
            f"tried again from {deferral['until']} on" if deferral["until"] else "next"
        )
        output.sentence(
            f"deferred: {deferral['host']}, {deferral['attempts']} of {deferral['attempts_max']} "
            f"attempts, {when} (forewarn explain {deferral['operation']})"
        )
    if left := campaign["deferred_count"] - len(shown):
        output.line(f"and {count(left, 'more deferred host')}")


def _print_terms(terms: Json) -> None:
    """Print the limits and checks, and whether windows count."""
    rank = f", priority {terms['priority']}" if terms["priority"] else ""
    output.line(f"{_budgets(terms['budgets'])}{rank}")
    if terms["emergency"]:
        output.line("emergency: windows, blackouts and deferrals do not stop it")
    output.sentence(f"tolerance: {_tolerance(terms)}")
    if terms["checks"]:
        output.sentence(f"checks: {', '.join(terms['checks'])}")


def _budgets(budgets: Json) -> str:
    """Return the budgets as in the campaign file, and percentages also as hosts."""
    named = [
        f"{key} {_resolved(value, budgets.get(f'{key}_hosts'))}"
        for key in ("in_flight", "unavailable", "tenant_vms", "overlap_notice")
        if (value := budgets[key])
    ]
    named += [f"{label} {most}" for label, most in budgets["by"].items()]
    return f"budgets: {', '.join(named)}"


def _resolved(value: str | int, hosts: int | None) -> str:
    """Return a budget, and its number of hosts if it is a percentage."""
    text = str(value)
    return f"{text} ({count(hosts, 'host')})" if text.endswith("%") and hosts else text


def _tolerance(campaign: Json) -> str:
    """Return the failures that a campaign tolerates."""
    terms = campaign["tolerance"]
    down = terms["vms_down"]
    limits = [
        (
            f"{count(terms['failures'], 'failure')} of the last "
            f"{count(terms['of_last'], 'host')}"
        ),
        f"{terms['in_a_row']:,} in a row",
        *([] if down is None else [f"{count(down, 'VM')} down"]),
    ]
    stages = len(campaign["stages"])
    since = f", from stage {stages} on" if campaign["stage"] < stages else ""
    return f"{', '.join(limits)}{since}"


def _running_stage(campaign: Json, place: int) -> Sequence[str]:
    stage, number = campaign["stages"][place], place + 1
    state = "waits"
    if number < campaign["stage"] or campaign["state"] == "Done":
        state = "done"
    elif number == campaign["stage"]:
        # A stage that has soaked can wait for its approval.
        state = "runs" if stage["left"] else "done"
        if stage["soaks_until"]:
            state = f"soaks until {stage['soaks_until']}"
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
