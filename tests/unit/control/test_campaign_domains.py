"""The report of a campaign has its planned end, and scopes with two fault domains down."""

from typing import Any

from forewarn.cli import campaign_sums as shown
from forewarn.control.requests import failures
from forewarn.instants import format_instant
from forewarn.protocol.operations import OperationState
from forewarn.reporting import campaign_sums
from forewarn.reporting.campaigns import campaign_report
from tests.support.campaigns import campaign, file_of, start, start_text
from tests.support.rollouts import name_of, world_of
from tests.support.worlds import World


def sums(world: World) -> dict[str, Any]:
    return world.read(
        lambda reader: campaign_sums.sums_and_figures(
            reader, campaign(world), now=world.now
        )
    )


def fail_host(world: World, number: int) -> None:
    world.order(lambda work: failures.fail_host(work, name_of(number)))
    world.settle()


def restore_host(world: World, number: int) -> None:
    world.order(lambda work: failures.restore_host(work, name_of(number)))
    world.settle()


def test_report_has_the_planned_end_beside_the_real_one() -> None:
    service = world_of([{f"s{number}": 0} for number in range(2)])
    planned = start(service).planned_end
    assert planned > service.now
    service.advance("1d")
    record = campaign(service)
    report = service.read(
        lambda reader: campaign_report(reader, record, now=service.now)
    )
    assert report["planned_end"] == format_instant(planned)
    assert report["ended"] == format_instant(record.ended)


def test_report_counts_scopes_with_two_fault_domains_down() -> None:
    """A VM of another domain fails during the work, before it, or without any work."""
    hosts = [{"both": 0, "apart": 0}, {"both": 1}, {"apart": 1}, {"idle": 0}]
    service = world_of([*hosts, {"idle": 1}])
    select = f'except = ["{name_of(3)}", "{name_of(4)}"]'
    written = file_of().replace("all = true", f"all = true, {select}")
    for number in (2, 3, 4):
        fail_host(service, number)
    service.advance("1m")
    for number in (2, 3, 4):
        restore_host(service, number)
    start_text(service, written)
    while not any(
        each.state is OperationState.IMPACTING for each in service.operations()
    ):
        service.advance("10s")
    assert sums(service)["several_domains_down"] == []
    fail_host(service, 1)
    service.advance("1s")
    assert sums(service)["several_domains_down"] == ["both"]
    restore_host(service, 1)
    service.advance("1d")
    assert sums(service)["several_domains_down"] == ["both"]
    line = "scopes with two fault domains down: 1: both"
    assert line in list(shown.lines(sums(service)))
