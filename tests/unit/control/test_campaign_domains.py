"""The report of a campaign has its planned end, and scopes with two fault domains down."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from forewarn.cli import campaign_sums as shown
from forewarn.control.requests import failures
from forewarn.fleet.model import Span, SpanKind
from forewarn.instants import format_instant
from forewarn.protocol.operations import OperationState
from forewarn.reporting import campaign_domains, campaign_sums
from forewarn.reporting.campaigns import campaign_report
from forewarn.store.port import Columns, Reader
from forewarn.store.snapshot import snapshots_of
from forewarn.store.sqlite import SqliteStore
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


@dataclass
class Counting:
    """A reader of a file that counts statements for columns, and their rows."""

    reader: Any
    statements: int = 0
    rows: int = 0

    def columns(self, *args: Any, **more: Any) -> Iterator[Columns]:
        self.statements += 1
        for page in self.reader.columns(*args, **more):
            self.rows += len(page[0])
            yield page

    def __getattr__(self, name: str) -> Any:
        return getattr(self.reader, name)


def spans(vm: str, scope: str, domain: int, began: int) -> list[Span]:
    """Return the existence of a VM, and the outage that a campaign has caused."""
    life = Span(
        span_id=f"{vm}/0",
        vm=vm,
        scope=scope,
        tenant="shop",
        fault_domain=domain,
        kind=SpanKind.EXISTENCE,
        began=1,
    )
    outage = Span(
        span_id=f"{vm}/1",
        vm=vm,
        scope=scope,
        tenant="shop",
        fault_domain=domain,
        kind=SpanKind.FAILURE,
        operation=f"op-{vm}",
        began=began,
        ended=began + 10,
    )
    return [life, outage]


def test_outages_of_all_scopes_are_read_by_one_statement(tmp_path: Path) -> None:
    service = world_of([{"both": 0}])
    start(service)
    record = campaign(service)
    scopes = [f"scope-{number:03}" for number in range(120)]
    rows = [
        span
        for number, scope in enumerate(scopes)
        for domain in (0, 1)
        # In each fiftieth scope, the second domain is down before the first is up.
        for span in spans(
            f"{scope}-{domain}",
            scope,
            domain,
            record.created + domain * (5 if number % 50 == 0 else 20),
        )
    ]
    store = SqliteStore(tmp_path / "store.db")
    store.transact(lambda tx: [tx.add(span) for span in rows])
    snapshot = snapshots_of(tmp_path / "store.db")
    operations = {span.operation for span in rows if span.operation}

    def read(reader: Reader) -> tuple[list[str], int, int]:
        counting = Counting(reader)
        several = campaign_domains.several_down(
            cast("Reader", counting), record, scopes, operations, now=service.now
        )
        return several, counting.statements, counting.rows

    several, statements, read_rows = snapshot.read(read)
    assert several == ["scope-000", "scope-050", "scope-100"]
    assert statements == 1
    # The existences of VMs are not read.
    assert read_rows == len(operations)
    snapshot.close()
    store.close()
