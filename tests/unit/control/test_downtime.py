"""Times of VMs: written with the change, forgotten without a false claim."""

from forewarn.control import retention
from forewarn.control.requests import failures, fleet_changes, outcome, verbs
from forewarn.control.requests.verbs import Wishes
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.port import Call, Report, Verdict
from forewarn.fleet.availability import Period
from forewarn.fleet.file import read_fleet
from forewarn.fleet.model import Vm, VmState
from forewarn.fleet.spans import Span, SpanKind
from forewarn.instants import DAY, MINUTE, SECOND, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, CallState, Operation
from forewarn.reporting import uptime
from forewarn.store import kinds
from tests.unit.admin.desk import FLEET, START, LocalDesk


def spans(desk: LocalDesk, vm: str) -> list[Span]:
    return desk.store.read(lambda reader: reader.select(kinds.SPANS_OF_VM, vm))


def outages(desk: LocalDesk, vm: str) -> list[tuple[SpanKind, Micros, Micros, bool]]:
    return [
        (
            span.kind,
            span.began - START,
            span.ended and span.ended - START,
            span.is_exact,
        )
        for span in spans(desk, vm)
        if span.is_outage
    ]


def order(desk: LocalDesk, decide: object) -> None:
    assert callable(decide)
    desk.plane.order(Who(actor=operator("test")), decide, now=desk.now())


def apply(desk: LocalDesk, text: str) -> None:
    wanted = read_fleet(text, name="fleet.toml")
    order(desk, lambda work: fleet_changes.apply(work, wanted))


def asked(desk: LocalDesk, since: Micros, **names: str) -> uptime.Asked:
    return uptime.Asked(period=Period(since=since, until=desk.now()), **names)


class SlowDriver:
    """Reports when it is told to, with the pauses it is told."""

    def __init__(self, desk: LocalDesk) -> None:
        self.desk = desk
        desk.driver.is_silent = True

    def report(self, verdict: Verdict = Verdict.DONE, **pauses: Micros) -> None:
        call: Call = self.desk.driver.calls[-1]
        self.desk.driver._reports.append(
            Report(
                operation_id=call.operation_id,
                generation=call.generation,
                verdict=verdict,
                paused=tuple(pauses.items()),
            )
        )
        self.desk.plane.advance(now=self.desk.now())


def migrate(work: Work) -> None:
    verbs.maintain(work, ["h1"], Action.LIVE_MIGRATE, Wishes())


def freeze(work: Work) -> None:
    verbs.maintain(work, ["h1"], Action.FREEZE, Wishes())


def test_a_pause_is_as_long_as_the_driver_measured() -> None:
    desk = LocalDesk()
    driver = SlowDriver(desk)
    order(desk, freeze)
    desk.advance("16m")
    begun = desk.now() - START
    desk.advance("1m")
    driver.report(web_0=3 * SECOND)
    ended = desk.now() - START
    assert outages(desk, "web_0") == [
        (SpanKind.FREEZE, ended - 3 * SECOND, ended, True)
    ]
    # The other one was measured by nobody: it counts from the call to its report.
    [(kind, began, until, exact)] = outages(desk, "db_0")
    assert (kind, until, exact) == (SpanKind.FREEZE, ended, True)
    assert began <= begun < ended


def test_a_migration_that_nobody_measured_is_a_bound() -> None:
    desk = LocalDesk()
    driver = SlowDriver(desk)
    order(desk, migrate)
    desk.advance("16m")
    desk.advance("2m")
    first = desk.driver.calls[-1].vms[0].vm
    driver.report()
    [(kind, _, ended, exact)] = outages(desk, first)
    assert (kind, exact) == (SpanKind.LIVE_MIGRATE, False)
    assert ended == desk.now() - START
    second = desk.driver.calls[-1].vms[0].vm
    desk.advance("1m")
    driver.report(Verdict.DONE, **{second: SECOND})
    assert outages(desk, second) == [
        (
            SpanKind.LIVE_MIGRATE,
            desk.now() - START - SECOND,
            desk.now() - START,
            True,
        )
    ]


def test_between_two_attempts_a_vm_runs() -> None:
    desk = LocalDesk()
    driver = SlowDriver(desk)
    order(desk, freeze)
    desk.advance("15m")
    begun = desk.now() - START
    desk.advance("3s")
    driver.report(Verdict.FAILED)
    failed = desk.now() - START
    # The next attempt comes ten seconds later, and is let to work for four.
    desk.advance("14s")
    driver.report()
    assert outages(desk, "web_0") == [
        (SpanKind.FREEZE, begun, failed, True),
        (SpanKind.FREEZE, failed + 10 * SECOND, failed + 14 * SECOND, True),
    ]
    assert failed == begun + 3 * SECOND


def test_what_nobody_knows_the_outcome_of_counts_as_down_until_somebody_says() -> None:
    """As docs/explanation/availability-accounting.md tells: `fleet show` says that it runs, and what is at it."""
    desk = LocalDesk()
    SlowDriver(desk)
    desk.driver.forgets = True
    order(desk, freeze)
    desk.advance("15m")
    begun = desk.now() - START
    desk.advance("40m")
    vm = desk.store.read(lambda reader: reader.get(Vm, "web_0"))
    assert vm is not None
    [name] = vm.started
    operation = desk.store.read(lambda reader: reader.get(Operation, name))
    assert operation is not None
    assert operation.call_state is CallState.UNKNOWN
    assert vm.state is VmState.RUNNING
    assert outages(desk, "web_0") == [(SpanKind.FREEZE, begun, 0, True)]
    order(desk, lambda work: outcome.resolve(work, name, done=True))
    assert outages(desk, "web_0") == [
        (SpanKind.FREEZE, begun, desk.now() - START, True)
    ]


def test_what_befalls_a_vm_that_is_down_is_part_of_its_failure() -> None:
    desk = LocalDesk()
    order(desk, lambda work: failures.fail_vm(work, "web_0"))
    desk.advance("10s")
    order(desk, lambda work: failures.fail_host(work, "h1"))
    desk.advance("10s")
    order(desk, lambda work: failures.restore_host(work, "h1"))
    desk.advance("10s")
    # It failed by itself, and its host's return does not mend that.
    order(desk, lambda work: failures.restore_vm(work, "web_0"))
    assert outages(desk, "web_0") == [(SpanKind.FAILURE, 0, 30 * SECOND, True)]
    assert outages(desk, "db_0") == [(SpanKind.FAILURE, 10 * SECOND, 20 * SECOND, True)]


def test_a_vm_that_changes_its_scope_is_there_anew() -> None:
    desk = LocalDesk()
    desk.advance("1m")
    apply(
        desk,
        FLEET.replace(
            'name = "web_1"\nhost = "h2"\nscope = "web"\nfault_domain = 1',
            'name = "web_1"\nhost = "h2"\ntenant = "bank"',
        ),
    )
    old, new = spans(desk, "web_1")
    assert (old.scope, old.tenant, old.ended) == ("web", "shop", START + MINUTE)
    assert (new.scope, new.tenant, new.began) == ("web_1", "bank", START + MINUTE)
    assert new.is_open


def test_a_vm_that_leaves_the_fleet_is_still_told_of() -> None:
    desk = LocalDesk()
    desk.advance("1m")
    apply(desk, FLEET[: FLEET.index('[[vm]]\nname = "same"')])
    desk.advance("1m")
    told = desk.store.read(
        lambda reader: uptime.page(
            reader, asked(desk, START, vm="same"), after="", limit=9
        )
    )
    assert [row["existed_seconds"] for row in told["vms"]] == [60.0]


def test_what_is_forgotten_is_unknown_and_not_up() -> None:
    desk = LocalDesk()
    order(desk, lambda work: failures.fail_vm(work, "web_0"))
    desk.advance("1h")
    order(desk, lambda work: failures.restore_vm(work, "web_0"))
    restored = desk.now()
    desk.clock.advance_to(restored + 40 * DAY)
    while desk.plane.advance(now=desk.now()):
        pass
    assert outages(desk, "web_0") == []
    told = desk.store.read(
        lambda reader: uptime.page(
            reader, asked(desk, START, scope="web"), after="", limit=9
        )
    )
    first, second = told["vms"]
    assert (first["unknown_seconds"], first["existed_seconds"]) == (
        3600.0,
        40 * 86_400.0,
    )
    assert (second["unknown_seconds"], second["percent"]) == (0.0, 100.0)


def test_pages_of_vms_add_up_to_the_whole() -> None:
    desk = LocalDesk()
    order(desk, lambda work: failures.fail_host(work, "h2"))
    desk.advance("10s")
    whole = desk.store.read(
        lambda reader: uptime.page(reader, asked(desk, START), after="", limit=99)
    )
    rows: list[object] = []
    after = ""
    while True:
        page = desk.store.read(
            lambda reader, a=after: uptime.page(
                reader, asked(desk, START), after=a, limit=2
            )
        )
        rows += page["vms"]
        if page["next"] is None:
            break
        after = page["next"]
    assert rows == whole["vms"]
    assert whole["next"] is None
    assert whole["total"]["unplanned_seconds"] == 30.0


def test_old_times_go_in_small_steps() -> None:
    desk = LocalDesk()
    for _ in range(retention.ROWS_PER_STEP + 1):
        order(desk, lambda work: failures.fail_vm(work, "web_0"))
        desk.advance("1s")
        order(desk, lambda work: failures.restore_vm(work, "web_0"))
        desk.advance("1s")
    desk.clock.advance_to(desk.now() + 31 * DAY)
    assert desk.plane.advance(now=desk.now())
    while desk.plane.advance(now=desk.now()):
        pass
    assert outages(desk, "web_0") == []
