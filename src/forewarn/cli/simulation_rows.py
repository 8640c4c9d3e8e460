"""The sentences and rows of a simulated campaign."""

from collections.abc import Iterator, Sequence

from forewarn.cli.blackouts import blackout_lines
from forewarn.cli.client import Json
from forewarn.cli.tables import second
from forewarn.instants import SECOND, describe_duration
from forewarn.texts import count

STAGES = ("STAGE", "HOSTS", "DONE", "FAILED", "BEGINS", "ENDS")
PERIODS = ("OPENS", "CLOSES", "DONE", "FAILED")
BUDGETS = ("BUDGET", "WHERE", "USED", "OF", "AT")
INTERRUPTIONS = ("INTERRUPTION", "VMS", "MINUTES", "STILL DOWN")


def facts(told: Json) -> Iterator[str]:
    """Yield the results that are not in a table, as sentences."""
    yield (
        f"campaign {told['campaign']}: {told['impact']} of "
        f"{count(told['host_count'], 'host')} with {count(told['vm_count'], 'VM')}"
    )
    share, measured = told["approve_percent"], told["approvals_measured"]
    approvals = (
        f"tenants approve as on {count(measured, 'host')} of past work"
        if share is None
        else f"{share:g} % of the scopes approve"
    )
    yield (
        f"assumed: {approvals}, {told['failure_percent']:g} % of the hosts fail; stages "
        "are approved at once"
    )
    lasted = describe_duration(round(told["seconds"]) * SECOND)
    end = second(told["ends"])
    counts = (
        f"{told['done']:,} done, {len(told['failed']):,} failed, {told['left']:,} left"
    )
    if told["halted"]:
        yield f"halted at {end}, after {lasted}: {told['halted']}"
        yield f"then: {counts}; {count(told['withdrawn'], 'announcement')} withdrawn"
    elif told["is_stuck"]:
        yield f"stuck since {end}, after {lasted}: {counts}"
        for each in told["waits"]:
            yield f"  {each['host']} waits: {'; '.join(each['reasons'])}"
    else:
        yield f"ended at {end}, after {lasted}: {counts}"
    yield f"forecast of the plan: ends {second(told['forecast_ends'])} with typical hosts"
    yield from blackout_lines(told["blackouts"])
    notice, moves = told["notice"], told["moves"]
    yield (
        f"notice: {notice['given_minutes']:g} minutes on average, "
        f"{notice['used_percent']:g} % used; all tenants of "
        f"{count(notice['approved_hosts'], 'host')} of {notice['hosts']:,} approved early"
    )
    if moves["moves"]:
        yield (
            f"moves: {moves['moves']:,} of {count(moves['vms'], 'VM')}, "
            f"at most {moves['most']:,} of one VM"
        )


def stage(told: Json) -> Sequence[str]:
    """Return the row of a stage."""
    return (
        str(told["stage"]),
        f"{told['hosts']:,}",
        f"{told['done']:,}",
        f"{told['failed']:,}",
        second(told["begins"] or "-"),
        second(told["ends"] or "-"),
    )


def period(told: Json) -> Sequence[str]:
    """Return the row of a night or day."""
    return (told["opens"], told["closes"], f"{told['done']:,}", f"{told['failed']:,}")


def budget(told: Json) -> Sequence[str]:
    """Return the row of a budget."""
    most = told["most"]
    return (
        f"{told['kind']} {told['label']}".strip(),
        told["subject"] or "-",
        f"{told['used']:,}",
        "-" if most is None else f"{most:,}",
        second(told["at"] or "-"),
    )


def interruption(told: Json) -> Sequence[str]:
    """Return the row of a kind of interruption."""
    return (
        told["kind"],
        f"{told['vms']:,}",
        f"{told['minutes']:,}",
        f"{told['still_down']:,}",
    )
