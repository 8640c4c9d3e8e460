"""Times of VMs: written with the change, forgotten without a false claim."""

from forewarn.control import retention
from forewarn.control.requests import failures, fleet_changes, outcome, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.port import Call, Report, Verdict
from forewarn.fleet.availability import Period
from forewarn.fleet.file import read_fleet
from forewarn.fleet.model import Span, SpanKind, Vm, VmState
from forewarn.instants import DAY, MINUTE, SECOND, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, CallState, Operation
from forewarn.reporting import uptime
from forewarn.store import kinds
from tests.unit.admin.gateway import FLEET, START, LocalGateway


def spans(gateway: LocalGateway, vm: str) -> list[Span]:
    return gateway.store.read(lambda reader: reader.select(kinds.SPANS_OF_VM, vm))


def outages(
    gateway: LocalGateway, vm: str
) -> list[tuple[SpanKind, Micros, Micros, bool]]:
    return [
        (
            span.kind,
            span.began - START,
            span.ended and span.ended - START,
            span.is_exact,
        )
        for span in spans(gateway, vm)
        if span.is_outage
    ]


def order(gateway: LocalGateway, decide: object) -> None:
    assert callable(decide)
    gateway.plane.order(Who(actor=operator("test")), decide, now=gateway.now())


def apply(gateway: LocalGateway, text: str) -> None:
    wanted = read_fleet(text, name="fleet.toml")
    order(gateway, lambda work: fleet_changes.apply(work, wanted))


def asked(
    gateway: LocalGateway, since: Micros, *, vm: str = "", scope: str = ""
) -> uptime.SpanSelection:
    period = Period(since=since, until=gateway.now())
    return uptime.SpanSelection(period=period, vm=vm, scope=scope)


class SlowDriver:
    """Reports when it is told to, with the pauses it is told."""

    def __init__(self, gateway: LocalGateway) -> None:
        self.gateway = gateway
        gateway.driver.is_silent = True

    def report(self, verdict: Verdict = Verdict.DONE, **pauses: Micros) -> None:
        call: Call = self.gateway.driver.calls[-1]
        self.gateway.driver._reports.append(
            Report(
                operation_id=call.operation_id,
                generation=call.generation,
                verdict=verdict,
                paused=tuple(pauses.items()),
            )
        )
        self.gateway.plane.advance(now=self.gateway.now())


def migrate(work: Work) -> None:
    verbs.maintain(work, ["h1"], Action.LIVE_MIGRATE, OrderOptions())


def freeze(work: Work) -> None:
    verbs.maintain(work, ["h1"], Action.FREEZE, OrderOptions())


def test_measured_pause_is_recorded_with_its_length() -> None:
    gateway = LocalGateway()
    driver = SlowDriver(gateway)
    order(gateway, freeze)
    gateway.advance("16m")
    begun = gateway.now() - START
    gateway.advance("1m")
    driver.report(web_0=3 * SECOND)
    ended = gateway.now() - START
    assert outages(gateway, "web_0") == [
        (SpanKind.FREEZE, ended - 3 * SECOND, ended, True)
    ]
    # The other one was measured by nobody: it counts from the call to its report.
    [(kind, began, until, exact)] = outages(gateway, "db_0")
    assert (kind, until, exact) == (SpanKind.FREEZE, ended, True)
    assert began <= begun < ended


def test_unmeasured_migration_downtime_is_an_upper_bound() -> None:
    gateway = LocalGateway()
    driver = SlowDriver(gateway)
    order(gateway, migrate)
    gateway.advance("16m")
    gateway.advance("2m")
    first = gateway.driver.calls[-1].vms[0].vm
    driver.report()
    [(kind, _, ended, exact)] = outages(gateway, first)
    assert (kind, exact) == (SpanKind.LIVE_MIGRATE, False)
    assert ended == gateway.now() - START
    second = gateway.driver.calls[-1].vms[0].vm
    gateway.advance("1m")
    driver.report(Verdict.DONE, **{second: SECOND})
    assert outages(gateway, second) == [
        (
            SpanKind.LIVE_MIGRATE,
            gateway.now() - START - SECOND,
            gateway.now() - START,
            True,
        )
    ]


def test_vm_counts_as_running_between_attempts() -> None:
    gateway = LocalGateway()
    driver = SlowDriver(gateway)
    order(gateway, freeze)
    gateway.advance("15m")
    begun = gateway.now() - START
    gateway.advance("3s")
    driver.report(Verdict.FAILED)
    failed = gateway.now() - START
    # The next attempt comes ten seconds later, and is let to work for four.
    gateway.advance("14s")
    driver.report()
    assert outages(gateway, "web_0") == [
        (SpanKind.FREEZE, begun, failed, True),
        (SpanKind.FREEZE, failed + 10 * SECOND, failed + 14 * SECOND, True),
    ]
    assert failed == begun + 3 * SECOND


def test_vm_with_unknown_outcome_counts_as_down_until_resolved() -> None:
    """As docs/explanation/availability-accounting.md tells: `fleet show` says that it runs, and what is at it."""
    gateway = LocalGateway()
    SlowDriver(gateway)
    gateway.driver.forgets = True
    order(gateway, freeze)
    gateway.advance("15m")
    begun = gateway.now() - START
    gateway.advance("40m")
    vm = gateway.store.read(lambda reader: reader.get(Vm, "web_0"))
    assert vm is not None
    [name] = vm.started
    operation = gateway.store.read(lambda reader: reader.get(Operation, name))
    assert operation is not None
    assert operation.call_state is CallState.UNKNOWN
    assert vm.state is VmState.RUNNING
    assert outages(gateway, "web_0") == [(SpanKind.FREEZE, begun, 0, True)]
    order(gateway, lambda work: outcome.resolve(work, name, done=True))
    assert outages(gateway, "web_0") == [
        (SpanKind.FREEZE, begun, gateway.now() - START, True)
    ]


def test_host_failure_of_a_down_vm_is_part_of_its_failure() -> None:
    gateway = LocalGateway()
    order(gateway, lambda work: failures.fail_vm(work, "web_0"))
    gateway.advance("10s")
    order(gateway, lambda work: failures.fail_host(work, "h1"))
    gateway.advance("10s")
    order(gateway, lambda work: failures.restore_host(work, "h1"))
    gateway.advance("10s")
    # It failed by itself, and its host's return does not mend that.
    order(gateway, lambda work: failures.restore_vm(work, "web_0"))
    assert outages(gateway, "web_0") == [(SpanKind.FAILURE, 0, 30 * SECOND, True)]
    assert outages(gateway, "db_0") == [
        (SpanKind.FAILURE, 10 * SECOND, 20 * SECOND, True)
    ]


def test_scope_change_of_a_vm_starts_a_new_span() -> None:
    gateway = LocalGateway()
    gateway.advance("1m")
    apply(
        gateway,
        FLEET.replace(
            'name = "web_1"\nhost = "h2"\nscope = "web"\nfault_domain = 1',
            'name = "web_1"\nhost = "h2"\ntenant = "bank"',
        ),
    )
    old, new = spans(gateway, "web_1")
    assert (old.scope, old.tenant, old.ended) == ("web", "shop", START + MINUTE)
    assert (new.scope, new.tenant, new.began) == ("web_1", "bank", START + MINUTE)
    assert new.is_open


def test_vm_removed_from_the_fleet_stays_in_the_uptime_report() -> None:
    gateway = LocalGateway()
    gateway.advance("1m")
    apply(gateway, FLEET[: FLEET.index('[[vm]]\nname = "same"')])
    gateway.advance("1m")
    told = gateway.store.read(
        lambda reader: uptime.page(
            reader, asked(gateway, START, vm="same"), after="", limit=9
        )
    )
    assert [row["existed_seconds"] for row in told["vms"]] == [60.0]


def test_expired_downtime_counts_as_unknown() -> None:
    gateway = LocalGateway()
    order(gateway, lambda work: failures.fail_vm(work, "web_0"))
    gateway.advance("1h")
    order(gateway, lambda work: failures.restore_vm(work, "web_0"))
    restored = gateway.now()
    gateway.clock.advance_to(restored + 40 * DAY)
    while gateway.plane.advance(now=gateway.now()):
        pass
    assert outages(gateway, "web_0") == []
    told = gateway.store.read(
        lambda reader: uptime.page(
            reader, asked(gateway, START, scope="web"), after="", limit=9
        )
    )
    first, second = told["vms"]
    assert (first["unknown_seconds"], first["existed_seconds"]) == (
        3600.0,
        40 * 86_400.0,
    )
    assert (second["unknown_seconds"], second["percent"]) == (0.0, 100.0)


def test_pages_of_vms_add_up_to_the_total() -> None:
    gateway = LocalGateway()
    order(gateway, lambda work: failures.fail_host(work, "h2"))
    gateway.advance("10s")
    whole = gateway.store.read(
        lambda reader: uptime.page(reader, asked(gateway, START), after="", limit=99)
    )
    rows: list[object] = []
    after = ""
    while True:
        page = gateway.store.read(
            lambda reader, a=after: uptime.page(
                reader, asked(gateway, START), after=a, limit=2
            )
        )
        rows += page["vms"]
        if page["next"] is None:
            break
        after = page["next"]
    assert rows == whole["vms"]
    assert whole["next"] is None
    assert whole["total"]["unplanned_seconds"] == 30.0


def test_old_spans_are_deleted_in_small_steps() -> None:
    gateway = LocalGateway()
    for _ in range(retention.ROWS_PER_STEP + 1):
        order(gateway, lambda work: failures.fail_vm(work, "web_0"))
        gateway.advance("1s")
        order(gateway, lambda work: failures.restore_vm(work, "web_0"))
        gateway.advance("1s")
    gateway.clock.advance_to(gateway.now() + 31 * DAY)
    assert gateway.plane.advance(now=gateway.now())
    while gateway.plane.advance(now=gateway.now()):
        pass
    assert outages(gateway, "web_0") == []
