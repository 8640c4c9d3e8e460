"""The sentences and rows of a simulated campaign."""

from collections.abc import Iterator, Sequence

from forewarn.cli.blackouts import blackout_lines
from forewarn.cli.client import Json
from forewarn.cli.tables import second
from forewarn.instants import SECOND, describe_duration
from forewarn.texts import count
from forewarn.wording import campaign_figures

STAGES = ("STAGE", "HOSTS", "DONE", "FAILED", "BEGINS", "ENDS")
PERIODS = ("OPENS", "CLOSES", "DONE", "FAILED")
BUDGETS = ("BUDGET", "WHERE", "USED", "OF", "AT")
INTERRUPTIONS = ("INTERRUPTION", "VMS", "MINUTES", "STILL DOWN")


def facts(simulation: Json) -> Iterator[str]:
    """Yield the results that are not in a table, as sentences."""
    yield (
        f"campaign {simulation['campaign']}: {simulation['impact']} of "
        f"{count(simulation['host_count'], 'host')} with {count(simulation['vm_count'], 'VM')}"
    )
    share, measured = simulation["approve_percent"], simulation["approvals_measured"]
    approvals = (
        f"tenants approve as on {count(measured, 'host')} of past work"
        if share is None
        else f"{share:g} % of the scopes approve"
    )
    yield (
        f"assumed: {approvals}, {simulation['failure_percent']:g} % of the hosts fail; stages "
        "are approved at once"
    )
    lasted = describe_duration(round(simulation["seconds"]) * SECOND)
    end = second(simulation["ends"])
    counts = f"{simulation['done']:,} done, {len(simulation['failed']):,} failed, {simulation['left']:,} left"
    if simulation["halted"]:
        yield f"halted at {end}, after {lasted}: {simulation['halted']}"
        yield f"then: {counts}; {count(simulation['withdrawn'], 'announcement')} withdrawn"
    elif simulation["is_stuck"]:
        yield f"stuck since {end}, after {lasted}: {counts}"
        for wait in simulation["waits"]:
            yield f"  {wait['host']} waits: {'; '.join(wait['reasons'])}"
    else:
        yield f"ended at {end}, after {lasted}: {counts}"
    yield f"forecast of the plan: ends {second(simulation['forecast_ends'])} with typical hosts"
    yield from blackout_lines(simulation["blackouts"])
    notice, moves = simulation["notice"], simulation["moves"]
    yield (
        f"notice: {notice['given_minutes']:g} minutes on average, "
        f"{notice['used_percent']:g} % used; all tenants of "
        f"{count(notice['approved_hosts'], 'host')} of {notice['hosts']:,} approved early"
    )
    for name, figure in campaign_figures.waits(simulation):
        yield f"{name.lower()}: {figure}"
    if moves["moves"]:
        yield (
            f"moves: {moves['moves']:,} of {count(moves['vms'], 'VM')}, "
            f"at most {moves['most']:,} of one VM"
        )


def stage(stage_: Json) -> Sequence[str]:
    """Return the row of a stage."""
    return (
        str(stage_["stage"]),
        f"{stage_['hosts']:,}",
        f"{stage_['done']:,}",
        f"{stage_['failed']:,}",
        stage_["begins"] or "-",
        stage_["ends"] or "-",
    )


def period(period_: Json) -> Sequence[str]:
    """Return the row of a night or day."""
    return (
        period_["opens"],
        period_["closes"],
        f"{period_['done']:,}",
        f"{period_['failed']:,}",
    )


def budget(budget_: Json) -> Sequence[str]:
    """Return the row of a budget."""
    most = budget_["most"]
    return (
        f"{budget_['kind']} {budget_['label']}".strip(),
        budget_["subject"] or "-",
        f"{budget_['used']:,}",
        "-" if most is None else f"{most:,}",
        budget_["at"] or "-",
    )


def interruption(interruption_: Json) -> Sequence[str]:
    """Return the row of a kind of interruption."""
    return (
        interruption_["kind"],
        f"{interruption_['vms']:,}",
        f"{interruption_['minutes']:,}",
        f"{interruption_['still_down']:,}",
    )
