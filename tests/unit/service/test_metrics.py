"""Counts of commits and of a running service, and the page of metrics."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from forewarn.admin.meters import Histogram, Meter
from forewarn.admin.metrics import render
from forewarn.clock import VirtualClock
from forewarn.control.requests import cordons, failures
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.file import FleetText
from forewarn.fleet.model import Host, Scope, ScopeKind, Tenant
from forewarn.protocol.actors import operator
from forewarn.protocol.blockers import BLOCKER_KINDS
from forewarn.protocol.operations import OperationState
from forewarn.service import limits, metric_definitions
from forewarn.service.assembly import Service
from forewarn.service.metrics import Held, Metrics
from forewarn.service.observed import Change, Changes, Listener, ObservedStore
from forewarn.service.readings import Readings
from forewarn.service.tally import Tally
from forewarn.store.memory import MemoryStore
from forewarn.store.port import ConflictError, Reader, StoreError, Transaction
from tests.support.loops import in_loop
from tests.unit.admin.gateway import START
from tests.unit.admin.test_metrics import samples
from tests.unit.service.observed import Observed
from tests.unit.service.test_service import FLEET as ONE_VM
from tests.unit.service.test_service import MORE, document, get, running, service_of

T = TypeVar("T")

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "metrics.md"
BLOCK = re.compile(r"(?<=<!-- metrics -->\n).*?(?=<!-- /metrics -->)", re.DOTALL)


# Counts of commits


def test_maintenance_is_counted_from_request_to_end() -> None:
    world = Observed()
    for vm in ("web_0", "db_0"):
        world.gateway.enable(vm)
    operation = world.maintain("h1")
    tally = world.tally
    assert tally.live == {("Scheduled", "Reboot"): 2}
    assert tally.operations()[0] == {("maintain", "Announced"): 1}
    world.gateway.advance("1m")
    world.approve(operation, "web_0")
    world.gateway.advance("2m")
    world.approve(operation, "db_0")
    assert tally.operations()[0] == {("maintain", "Impacting"): 1}
    assert +tally.live == {("Started", "Reboot"): 2}
    assert tally.calls == {"reboot": 1}
    world.gateway.advance("1h")
    assert world.state(operation) is OperationState.DONE
    assert tally.operations() == ({}, {})
    assert tally.ended == {("maintain", "Done"): 1}
    assert +tally.live == {}
    assert tally.steps == {
        ("Reboot", "scheduled"): 2,
        ("Reboot", "approved"): 2,
        ("Reboot", "started approved"): 2,
        ("Reboot", "completed"): 2,
    }
    assert tally.results == {("reboot", "done"): 1}
    waited = tally.approval_seconds["Reboot"]
    assert waited.sum == 60 + 180
    assert sum(waited.counts) == 2
    assert sum(tally.transaction_seconds.counts) > 5


def test_unapproved_starts_and_failures_are_distinguished() -> None:
    world = Observed()
    world.gateway.driver.is_silent = True
    operation = world.maintain("h1")
    world.gateway.advance("16m")
    assert world.tally.steps["Reboot", "started unapproved"] == 2
    assert world.tally.operations()[1]["maintain", "Impacting"] == pytest.approx(
        60, abs=1
    )
    world.gateway.driver.forgets = True
    world.gateway.advance("1h")
    assert world.tally.results == {("reboot", "unknown"): 1}
    assert world.held().reasons == {"driver unknown": 1}
    assert world.state(operation) is OperationState.IMPACTING


def test_late_timers_are_measured() -> None:
    world = Observed()
    world.maintain("h1")
    world.gateway.advance("14m")
    world.gateway.clock.advance_to(START + 20 * 60 * 1_000_000)
    world.gateway.plane.advance(now=world.gateway.now())
    late = world.tally.late_seconds
    assert sum(late.counts) == 1
    assert late.sum == pytest.approx(300)


def test_failures_are_counted_with_their_vms() -> None:
    world = Observed()
    world.gateway.plane.order(
        Who(actor=operator("test")),
        lambda work: failures.fail_host(work, "h1"),
        now=world.gateway.now(),
    )
    world.gateway.advance("20m")
    assert world.tally.vms_down() == (2, 1200)
    assert world.tally.steps == {("Reboot", "started at once"): 2}
    assert world.tally.operations()[1] == {("fail", "Impacting"): 1200}
    assert world.held().reasons == {"still down": 1}


def test_cordoned_hosts_are_counted_until_they_are_open() -> None:
    world = Observed()

    def order(decide: Callable[[Work], object]) -> None:
        world.gateway.plane.order(
            Who(actor=operator("test")), decide, now=world.gateway.now()
        )

    order(lambda work: cordons.cordon(work, "h1"))
    order(lambda work: cordons.cordon(work, "h2"))
    assert world.tally.cordoned == {"h1", "h2"}
    restarted = Tally(world.gateway.clock)
    restarted.load(world.gateway.plane.store)
    assert restarted.cordoned == {"h1", "h2"}
    assert restarted.away == world.tally.away == {"h1", "h2"}
    order(lambda work: cordons.open_host(work, "h1", by_all=False))
    assert world.tally.cordoned == {"h2"}
    order(lambda work: failures.fail_host(work, "h1"))
    assert world.tally.away == {"h1", "h2"}
    order(lambda work: failures.restore_host(work, "h1"))
    assert world.tally.away == {"h2"}


def test_failure_of_an_empty_host_counts_no_vm_as_down() -> None:
    world = Observed()

    def fail(decide: Callable[[Work], object]) -> None:
        world.gateway.plane.order(
            Who(actor=operator("test")), decide, now=world.gateway.now()
        )

    fail(lambda work: failures.fail_host(work, "same"))
    world.gateway.advance("20m")
    assert world.tally.operations()[1] == {("fail", "Impacting"): 1200}
    assert world.tally.vms_down() == (0, 0)
    # Another failure has its own age, not that of the empty host.
    fail(lambda work: failures.fail_vm(work, "web_0"))
    world.gateway.advance("1m")
    assert world.tally.vms_down() == (1, 60)
    assert world.tally.operations()[1] == {("fail", "Impacting"): 1260}


def test_open_operations_are_counted_at_start() -> None:
    world = Observed()
    world.gateway.driver.is_silent = True
    world.maintain("h1")
    world.gateway.advance("16m")
    world.maintain("h2")
    again = Tally(world.gateway.clock)
    again.load(world.gateway.store)
    assert again.operations() == world.tally.operations()
    assert again.operations()[0] == {
        ("maintain", "Impacting"): 1,
        ("maintain", "Announced"): 1,
    }
    assert again.live == +world.tally.live


def test_reasons_for_held_operations_are_counted_by_kind() -> None:
    world = Observed()
    world.gateway.driver.is_silent = True
    world.gateway.enable("web_0")
    first = world.maintain("h1")
    world.approve(first, "web_0")
    assert world.held().reasons == {"approval": 1, "not before": 1}
    world.gateway.advance("16m")
    # The other fault domain of `web` is held while this one is down.
    second = world.maintain("h2")
    world.approve(second, "web_1")
    world.gateway.advance("15m")
    assert world.state(second) is OperationState.READY
    assert world.held().reasons == {"fault domain": 1}
    assert set(world.held().reasons) <= set(BLOCKER_KINDS)


def test_an_approval_is_late_when_a_quarter_of_the_notice_is_left() -> None:
    world = Observed()
    world.gateway.enable("web_0")
    world.maintain("h1")
    world.gateway.advance("11m")
    assert world.held().late == 0
    world.gateway.advance("15s")
    # The other scope on the host is disabled, so no approval can come.
    assert world.held().late == 1


def test_scrape_examines_a_limited_number_of_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = Observed()
    world.maintain("h1")
    world.maintain("h2")
    monkeypatch.setattr(limits, "HELD_LOOKED_AT_MAX", 1)
    assert world.held().unexamined == 1
    assert world.held().reasons["approval"] == 1


class _Deaf(Listener):
    """A listener that cannot count."""

    def committed(self, changes: Changes) -> None:
        raise ValueError("I cannot count")

    def store_failed(self) -> None:
        raise ValueError("I cannot count")


class _Failing(MemoryStore):
    """A store that fails or has a conflict on demand."""

    error: StoreError | None = None

    def transact(self, work: Callable[[Transaction], T]) -> T:
        if self.error is not None:
            raise self.error
        return super().transact(work)


def test_writes_of_a_conflicting_attempt_are_not_counted() -> None:
    heard: list[list[Change[Any]]] = []

    class Heard(_Deaf):
        def committed(self, changes: Changes) -> None:
            heard.append(list(changes))

    store = ObservedStore(
        MemoryStore(), clock=VirtualClock(START), listeners=(Heard(),)
    )
    attempts = 0

    def work(tx: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        tx.add(Tenant(name=f"t{attempts}"))
        if attempts == 1:
            raise ConflictError("another writer was first")

    store.transact(work)
    [[change]] = heard
    assert change == Change(None, Tenant(name="t2"))


def test_listener_gets_the_writes_of_each_kind_and_all_in_their_order() -> None:
    first, second = Tenant(name="t1"), Tenant(name="t2")
    scope = Scope(name="s1", tenant="t1", kind=ScopeKind.SCALE_SET)
    writes = Change(None, first), Change(scope, None), Change(first, second)
    changes = Changes(*writes)
    assert tuple(changes) == writes
    assert changes.of(Tenant) == [writes[0], writes[2]]
    assert changes.of(Scope) == [writes[1]]
    assert not changes.of(Host)


def test_failing_listener_does_not_affect_the_store(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = _Failing()
    tally = Tally(VirtualClock(START))
    store = ObservedStore(inner, clock=VirtualClock(START), listeners=(_Deaf(), tally))
    assert store.transact(lambda tx: tx.add(Tenant(name="t"))).name == "t"
    assert sum(tally.transaction_seconds.counts) == 1
    assert "a listener failed to handle a transaction" in caplog.text
    inner.error = StoreError("the disk has gone")
    with pytest.raises(StoreError):
        store.transact(lambda _tx: None)
    inner.error = ConflictError("another writer")
    with pytest.raises(ConflictError):
        store.transact(lambda _tx: None)
    assert tally.store_failures == 1


# Metrics of a running service


async def scrape(service: Service) -> dict[tuple[str, tuple[str, ...]], float]:
    # Expire the cached reasons.
    service.metrics._held = None
    readings = await service.metrics.collect(service._parts())
    return samples(render(readings)[0].decode())


class Reads:
    """Readings that wait until they are released, and count."""

    def __init__(self, error: Exception | None = None) -> None:
        self.count = 0
        self.released = asyncio.Event()
        self._error = error

    async def read(self, _ask: Callable[[Reader], T]) -> Held:
        self.count += 1
        await self.released.wait()
        if self._error is not None:
            raise self._error
        return Held(late=7)


@in_loop
async def test_simultaneous_scrapes_share_one_read_of_the_reasons() -> None:
    metrics, reads = Metrics(VirtualClock(START)), Reads()
    readings = cast("Readings", reads)
    tasks = [asyncio.create_task(metrics._waiting_reasons(readings)) for _ in range(3)]
    await asyncio.sleep(0)
    reads.released.set()
    assert await asyncio.gather(*tasks) == [Held(late=7)] * 3
    assert await metrics._waiting_reasons(readings) == Held(late=7)
    assert reads.count == 1


@in_loop
async def test_reasons_are_unknown_and_read_again_after_a_failed_read() -> None:
    metrics, reads = Metrics(VirtualClock(START)), Reads(StoreError("no disk"))
    reads.released.set()
    readings = cast("Readings", reads)
    for _ in range(2):
        assert await metrics._waiting_reasons(readings) is None
    assert reads.count == 2


@in_loop
async def test_scrape_does_not_wait_for_a_store_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads = Reads()
    async with running(service_of()) as service:
        usual = await scrape(service)
        monkeypatch.setattr(limits, "HELD_WAIT_SECONDS", 0)
        readings = service.gateway.readings
        monkeypatch.setattr(readings, "read", reads.read)
        for _ in range(2):
            without = await scrape(service)
            assert without["forewarn_ready", ()] == 1
            names = {name for name, _ in usual} - {name for name, _ in without}
            assert names == {
                "forewarn_campaigns_waiting",
                "forewarn_approvals_late",
                "forewarn_operations_held",
                "forewarn_operations_unexamined",
                "forewarn_relays_silent",
            }
        # The scrapes share the read that has no answer.
        assert reads.count == 1
        reads.released.set()


@in_loop
async def test_requests_of_vms_are_counted() -> None:
    async with running(service_of(), ONE_VM + MORE) as service:
        before = await scrape(service)
        assert before["forewarn_metadata_responses_total", ("200",)] == 0
        assert before["forewarn_documents", ("disabled",)] == 2
        await document(service, "web_0")
        address = service.addresses()["web_0"]
        assert (await get(address, "/elsewhere"))[0] == 404
        gateway = service.server._hub.gateway
        assert await gateway.approve("web_0", ["00000000-0000-0000-0000-000000000000"])
        assert await gateway.approve("web_0", []) is None
        after = await scrape(service)
        assert after["forewarn_metadata_responses_total", ("200",)] == 1
        assert after["forewarn_metadata_responses_total", ("404",)] == 1
        assert after["forewarn_documents", ("served",)] == 1
        assert after["forewarn_documents", ("disabled",)] == 1
        assert after["forewarn_documents_published_total", ()] == 3
        assert after["forewarn_approvals_total", ("refused",)] == 1
        assert after["forewarn_approvals_total", ("accepted",)] == 1
        assert after["forewarn_vms", ()] == 2
        assert after["forewarn_ready", ()] == 1
        assert 0 <= after["forewarn_control_heartbeat_age_seconds", ()] < 10
        assert after["process_resident_memory_bytes", ()] > 1_000_000
    assert not service.health().ready


@in_loop
async def test_metrics_page_counts_its_own_requests() -> None:
    async with running(service_of()) as service:
        reader, writer = await asyncio.open_connection(*service.admin_address)
        text = ""
        for _ in range(2):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            [length] = re.findall(rb"content-length: (\d+)", head)
            text = (await reader.readexactly(int(length))).decode()
        writer.close()
        values = samples(text)
        assert values["forewarn_admin_responses_total", ("200",)] == 1
        assert values["forewarn_problems", ("vm-down",)] == 0


@pytest.mark.system
@in_loop
async def test_applying_a_fleet_adds_no_series() -> None:
    """All series exist from the start: no names of a fleet, no growth."""
    async with running(service_of()) as service:
        before = set(await scrape(service))
        await service.apply(_fleet_of(50))
        await asyncio.sleep(0.05)
        assert set(await scrape(service)) == before
    assert len(before) < 520


def _fleet_of(count: int) -> FleetText:
    vms = "".join(f'[[vm]]\nname = "v{n}"\nhost = "h1"\n' for n in range(count))
    return FleetText(name="fleet.toml", text=f'[[host]]\nname = "h1"\n{vms}')


# The page


def test_names_follow_prometheus_conventions() -> None:
    names = [meter.name for meter in metric_definitions.METERS]
    assert len(set(names)) == len(names)
    for meter in metric_definitions.METERS:
        assert re.fullmatch(r"(forewarn|process)_[a-z_]+", meter.name)
        assert meter.name.endswith("_total") == (meter.kind == "counter")
        assert (meter.kind == "histogram") == bool(meter.buckets)
        assert meter.text.endswith("."), meter
        assert list(meter.buckets) == sorted(meter.buckets)


@in_loop
async def test_each_metric_has_a_value() -> None:
    async with running(service_of()) as service:
        readings = await service.metrics.collect(service._parts())
    # Only replicas have those of the cluster, and the operator API reads the problems.
    alone = [
        meter
        for meter in metric_definitions.METERS
        if not meter.name.startswith("forewarn_cluster_")
        and meter is not metric_definitions.PROBLEMS
    ]
    assert [reading.meter for reading in readings] == alone
    for reading in readings:
        measured = reading.values
        histogram = reading.meter.kind == "histogram"
        values = measured.values() if isinstance(measured, dict) else [measured]
        assert all(isinstance(value, Histogram) == histogram for value in values)


def _row(meter: Meter) -> str:
    labels = "; ".join(
        f"`{label}`: {', '.join(values)}" if values else f"`{label}`"
        for label, values in meter.labels.items()
    )
    return f"| `{meter.name}` | {meter.kind} | {labels} | {meter.text} |"


def test_reference_page_lists_each_metric(request: pytest.FixtureRequest) -> None:
    wanted = "".join(f"{_row(meter)}\n" for meter in metric_definitions.METERS)
    wanted = f"| metric | kind | labels | meaning |\n|---|---|---|---|\n{wanted}"
    text = PAGE.read_text(encoding="utf-8")
    if request.config.getoption("--rewrite"):
        text = BLOCK.sub(lambda _: wanted, text)
        PAGE.write_text(text, encoding="utf-8")
    assert BLOCK.findall(text) == [wanted], "run `pytest --rewrite tests/unit/service`"
