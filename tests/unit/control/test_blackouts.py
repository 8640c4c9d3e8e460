"""In a blackout of the service, no planned work is announced or started."""

from collections.abc import Sequence

import pytest

from forewarn.control.requests import blackouts, brake, verbs, withdrawals
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR, MINUTE, Micros, format_instant
from forewarn.protocol.blockers import HinderedError
from forewarn.protocol.errors import BadRequestError, NotFoundError, RefusedError
from forewarn.protocol.notes import AnnouncedAgain, WithdrawnForBlackout
from forewarn.protocol.operations import Action, Operation, OperationState, Verb
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import AuditEntry, AuditKind
from forewarn.store.wide_blackouts import WideBlackout
from forewarn.wording import operators
from tests.support.worlds import LastingStore, World

HOSTS = 4
FLEET = '[[scope]]\nname = "set"\nkind = "scale-set"\n' + "".join(
    f'[[host]]\nname = "h{number}"\nrack = "r{number % 2}"\nlabels = {{ m = "a=b" }}\n'
    f'[[vm]]\nname = "web_{number}"\nhost = "h{number}"\n'
    + (
        f'[[vm]]\nname = "set_{number}"\nhost = "h{number}"\nscope = "set"\n'
        * (number == 3)
    )
    for number in range(HOSTS)
)

pytestmark = pytest.mark.clause("4.2")


def new_world(policy: Policy | None = None) -> World:
    store = LastingStore()
    return World(
        store=lambda: store, driver=SimulatedDriver(), fleet=FLEET, policy=policy
    )


@pytest.fixture
def world() -> World:
    return new_world()


def moment(world: World, minutes: float) -> str:
    """Return a wall-clock time in UTC after now, in whole seconds."""
    micros = world.now + round(minutes * MINUTE)
    return format_instant(micros - micros % 1_000_000).removesuffix("Z")


def put(
    world: World,
    begins: float,
    ends: float,
    *,
    name: str = "freeze",
    where: Sequence[str] = (),
) -> str:
    """Set a blackout between two times in minutes from now; return its end."""
    until = moment(world, ends)
    set_line(world, f"{moment(world, begins)} {until}", name=name, where=where)
    return f"{until}Z"


def set_line(
    world: World, line: str, *, name: str = "freeze", where: Sequence[str] = ()
) -> None:
    def decide(work: Work) -> WideBlackout:
        return blackouts.set_blackout(work, name, line, where)

    world.order(decide, actor="alice", reason="quiet")
    world.settle()


def remove(world: World, name: str = "freeze") -> None:
    world.order(lambda work: blackouts.remove(work, name), actor="bob", reason="over")
    world.settle()


def maintain(
    world: World, *hosts: str, emergency: bool = False, at: Micros | None = None
) -> None:
    options = OrderOptions(emergency=emergency, not_before=at)
    world.order(lambda work: verbs.maintain(work, hosts, Action.REBOOT, options))
    world.settle()


def open_ones(world: World) -> list[Operation]:
    return [operation for operation in world.operations() if not operation.ended_at]


def states(world: World) -> list[OperationState]:
    return [operation.state for operation in open_ones(world)]


def only(world: World) -> Operation:
    (operation,) = open_ones(world)
    return operation


def history(world: World, kind: AuditKind) -> list[AuditEntry]:
    entries = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    return [entry for entry in entries if entry.kind is kind]


def run_to(world: World, minutes: int) -> None:
    for _ in range(minutes):
        world.advance("1m")


def test_host_waits_unannounced_until_the_blackout_ends(world: World) -> None:
    world.vm("web_0").get()
    until = put(world, -5, 60)
    maintain(world, "h0")
    assert only(world).state is OperationState.PLANNED
    why = f"blackout freeze forbids it until {until}"
    assert world.explain(only(world).operation_id) == [why]
    world.advance("59m")
    assert world.vm("web_0").get().events == []
    world.advance("1m")
    assert only(world).state is OperationState.ANNOUNCED
    # The notice is a full one.
    assert only(world).not_before >= world.now + 14 * MINUTE


def test_host_is_not_announced_to_start_in_a_blackout(world: World) -> None:
    put(world, 10, 60)
    maintain(world, "h0")
    assert only(world).state is OperationState.PLANNED
    run_to(world, 44)
    assert only(world).state is OperationState.PLANNED
    # It is a blackout when it could be announced, so the notice begins after it.
    run_to(world, 20)
    assert only(world).not_before >= world.now + 10 * MINUTE


@pytest.mark.parametrize("hosts", [1, HOSTS])
def test_time_of_the_caller_shortly_before_the_end_needs_few_looks(
    world: World, hosts: int
) -> None:
    put(world, 60, 300)
    at = world.now + 300 * MINUTE - 5_000_000
    maintain(world, *(f"h{number}" for number in range(hosts)), at=at)
    revisions = 0
    for _ in range(59 * 6):
        world.advance("10s")
    (first, *_) = open_ones(world)
    assert first.state is OperationState.PLANNED
    revisions += first.revision
    # Each look that changes nothing would store the host again.
    assert revisions <= 6
    run_to(world, 250)
    assert OperationState.ANNOUNCED in states(world)


def test_rollout_waits_with_one_timer_however_many_hosts_it_has(world: World) -> None:
    put(world, -5, 60)
    maintain(world, "h0", "h1", "h2", "h3")
    assert states(world) == [OperationState.PLANNED] * HOSTS
    assert [bool(operation.due_at) for operation in open_ones(world)] == [True] + [
        False
    ] * 3
    for operation in open_ones(world):
        (why,) = world.explain(operation.operation_id)
        assert why.startswith("blackout freeze forbids it until ")
    world.advance("61m")
    assert OperationState.ANNOUNCED in states(world)


def test_announced_host_that_would_start_in_a_new_blackout_is_withdrawn(
    world: World,
) -> None:
    world.vm("web_0").get()
    maintain(world, "h0")
    assert len(world.vm("web_0").get().events) == 1
    (first,) = world.operations()
    put(world, 5, 60)
    assert world.vm("web_0").get().events == []
    note = world.operation(first.operation_id).note
    assert isinstance(note, WithdrawnForBlackout)
    assert note == WithdrawnForBlackout(
        blackout="freeze", successor=only(world).operation_id
    )
    assert operators.note(note) == (
        f"withdrawn for blackout freeze; {note.successor} is announced after it"
    )
    assert only(world).state is OperationState.PLANNED
    run_to(world, 62)
    assert len(world.vm("web_0").get().events) == 1


def test_host_that_starts_before_or_after_the_blackout_keeps_its_notice(
    world: World,
) -> None:
    maintain(world, "h0")
    maintain(world, "h1", at=world.now + 3 * HOUR)
    put(world, 30, 60)
    assert states(world) == [OperationState.ANNOUNCED] * 2
    world.vm("web_1").get()
    world.advance("40m")
    # An approval in the blackout does not start it; its end does.
    (event,) = world.vm("web_1").get().events
    assert world.vm("web_1").approve(event["EventId"]).status == 200
    assert only(world).state is OperationState.READY
    (why,) = world.explain(only(world).operation_id)
    assert why.startswith("blackout freeze forbids it until ")
    world.advance("25m")
    assert OperationState.READY not in states(world)


def test_held_host_that_a_blackout_overtakes_is_withdrawn(world: World) -> None:
    """The brake holds it at its time; then the blackout begins."""
    maintain(world, "h0")
    (first,) = world.operations()
    set_line(world, f"{moment(world, 40)} {moment(world, 120)}")
    world.order(brake.put_on, reason="power")
    world.advance("20m")
    assert states(world) == [OperationState.READY]
    world.advance("25m")
    world.order(brake.take_off)
    world.settle()
    assert isinstance(world.operation(first.operation_id).note, WithdrawnForBlackout)
    assert states(world) == [OperationState.PLANNED]
    run_to(world, 80)
    assert states(world) == [OperationState.ANNOUNCED]


def test_removing_the_blackout_lets_work_begin_at_once(world: World) -> None:
    put(world, -5, 600)
    maintain(world, "h0", "h1")
    assert states(world) == [OperationState.PLANNED] * 2
    remove(world)
    assert OperationState.ANNOUNCED in states(world)


def test_blackout_of_a_part_stops_only_its_hosts(world: World) -> None:
    put(world, -5, 60, where=["rack=r0"])
    maintain(world, "h0", "h1", "h2", "h3")
    by_host = {operation.host: operation for operation in open_ones(world)}
    assert by_host["h0"].state is OperationState.PLANNED
    assert by_host["h1"].state is OperationState.ANNOUNCED
    (why,) = world.explain(by_host["h0"].operation_id)
    assert why.startswith("blackout freeze forbids it until ")
    run_to(world, 62)
    states_now = {operation.host: operation.state for operation in open_ones(world)}
    assert states_now.get("h0") is not OperationState.PLANNED or (
        states_now.get("h2") is not OperationState.PLANNED
    )


def test_removing_a_blackout_of_a_part_frees_its_hosts(world: World) -> None:
    put(world, -5, 600, where=["rack=r0", "m=a=b"])
    maintain(world, "h0")
    assert only(world).state is OperationState.PLANNED
    remove(world)
    assert only(world).state is OperationState.ANNOUNCED


def test_places_of_one_kind_are_alternatives_and_kinds_are_all_needed() -> None:
    world = new_world()
    put(world, -5, 60, where=["rack=r0", "rack=r1", "m=a=b"])
    (found,) = world.read(lambda reader: reader.select(kinds.ALL_BLACKOUTS))
    assert found.places == ("rack=r0", "rack=r1", "label=m=a=b")
    assert found.covers(("rack=r1", "label=m=a=b", "zone=1"))
    assert not found.covers(("rack=r1",))
    assert not found.covers(())


def test_emergency_ignores_the_blackout_and_the_history_names_it(world: World) -> None:
    put(world, -5, 60)
    maintain(world, "h0", emergency=True)
    assert only(world).state is OperationState.ANNOUNCED
    (entry,) = history(world, AuditKind.BLACKOUTS_IGNORED)
    assert "host:h0" in entry.subjects
    assert "blackout freeze" in operators.detail_of(entry)


def test_emergency_outside_of_blackouts_ignores_none(world: World) -> None:
    put(world, 600, 660)
    maintain(world, "h0", emergency=True)
    assert history(world, AuditKind.BLACKOUTS_IGNORED) == []


@pytest.mark.parametrize("begins", [-5, 5])
def test_os_upgrade_that_a_blackout_would_stop_is_refused(
    world: World, begins: float
) -> None:
    put(world, begins, 60)
    with pytest.raises(HinderedError, match="no planned work is announced"):
        world.order(
            lambda work: verbs.change_vms(
                work, ["set_3"], Verb.UPGRADE_OS, OrderOptions(not_before=None)
            )
        ) if begins < 0 else world.order(
            lambda work: verbs.change_vms(
                work,
                ["set_3"],
                Verb.REIMAGE,
                OrderOptions(not_before=work.now + 10 * MINUTE),
            )
        )


def test_requests_of_users_continue(world: World) -> None:
    put(world, -5, 60)
    world.order(
        lambda work: verbs.change_vms(work, ["web_0"], Verb.REBOOT, OrderOptions())
    )
    world.advance("20m")
    (operation,) = world.operations()
    assert operation.started_at


def test_announced_os_upgrade_is_held_and_announced_again_after_the_blackout(
    world: World,
) -> None:
    world.order(
        lambda work: verbs.change_vms(
            work,
            ["set_3"],
            Verb.REIMAGE,
            OrderOptions(not_before=work.now + 10 * MINUTE),
        )
    )
    world.vm("set_3").get()
    (first,) = world.operations()
    put(world, 5, 3 * 24 * 60)
    assert world.operation(first.operation_id).state is first.state
    world.advance("20m")
    assert only(world).state in {OperationState.READY, OperationState.ANNOUNCED}
    for _ in range(74):
        world.advance("1h")
        assert OperationState.IMPACTING not in states(world) or world.now > 0
    last = world.operation(first.operation_id)
    assert last.ended_at
    assert not isinstance(last.note, WithdrawnForBlackout)
    assert last.note is None or isinstance(last.note, AnnouncedAgain)


def test_recurring_blackout_keeps_to_its_zone_over_a_change_of_the_clock(
    world: World,
) -> None:
    line = "00:00 23h Europe/Berlin"
    set_line(world, line)
    maintain(world, "h0")
    (before,) = open_ones(world)
    for _ in range(48):
        world.advance("30m")
        if world.operations()[-1].ended_at:
            break
    done = world.operations()[-1]
    assert done.started_at
    hour = format_instant(done.started_at)[11:13]
    assert hour in {"22", "21"}, "the free hour is 23:00 in Berlin"
    assert before.state is OperationState.PLANNED


def test_withdrawal_survives_a_crash_between_its_pages(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(withdrawals, "WITHDRAWN_MAX", 1)
    for number in range(HOSTS):
        maintain(world, f"h{number}")
    assert states(world) == [OperationState.ANNOUNCED] * HOSTS
    line = f"{moment(world, 5)} {moment(world, 60)}"
    world.order(
        lambda work: blackouts.set_blackout(work, "freeze", line),
        actor="alice",
        reason="quiet",
    )
    world.restart()
    world.settle()
    assert states(world) == [OperationState.PLANNED] * HOSTS
    world.restart()
    world.settle()
    assert states(world) == [OperationState.PLANNED] * HOSTS


def test_history_says_who_set_and_removed_it_and_why(world: World) -> None:
    put(world, -5, 60, where=["rack=r0"])
    remove(world)
    (made,) = history(world, AuditKind.BLACKOUT_SET)
    (gone,) = history(world, AuditKind.BLACKOUT_REMOVED)
    assert (made.actor.name, made.why) == ("alice", "quiet")
    assert (gone.actor.name, gone.why) == ("bob", "over")
    assert made.subjects == gone.subjects == ("blackout:freeze",)
    assert operators.detail_of(made).endswith(" UTC at rack=r0")


def test_setting_it_again_changes_it(world: World) -> None:
    put(world, -5, 600)
    maintain(world, "h0")
    put(world, 300, 600)
    assert only(world).state is OperationState.PLANNED or (
        only(world).state is OperationState.ANNOUNCED
    )
    (found,) = world.read(lambda reader: reader.select(kinds.ALL_BLACKOUTS))
    assert found.revision == 1
    world.advance("1m")
    assert only(world).state is OperationState.ANNOUNCED


REFUSED = {
    "2020-01-01 2020-01-02": (RefusedError, "would have ended already"),
    "00:00 24h": (RefusedError, "no planned work could ever begin"),
    "tomorrow": (BadRequestError, "is not a time of a blackout"),
}


@pytest.mark.parametrize("line", REFUSED)
def test_wrong_time_is_refused(world: World, line: str) -> None:
    kind, match = REFUSED[line]
    with pytest.raises(kind, match=match):
        set_line(world, line)


@pytest.mark.parametrize(
    ("place", "match"),
    [("r0", "is not a place"), ("rack=r9", "no host stands at rack=r9")],
)
def test_wrong_place_is_refused(world: World, place: str, match: str) -> None:
    with pytest.raises((RefusedError, BadRequestError), match=match):
        put(world, -5, 60, where=[place])


def test_too_many_places_or_blackouts_and_wrong_names_are_refused(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blackouts, "PLACES_MAX", 1)
    with pytest.raises(BadRequestError, match="at most 1 place, not 2"):
        put(world, -5, 60, where=["rack=r0", "rack=r1"])
    with pytest.raises(BadRequestError, match="is not a name"):
        put(world, -5, 60, name="a b")
    monkeypatch.setattr(blackouts, "BLACKOUTS_MAX", 1)
    put(world, -5, 60)
    put(world, -5, 50)
    with pytest.raises(RefusedError, match="at most 1 blackouts"):
        put(world, -5, 60, name="other")


def test_unknown_blackout_and_a_missing_reason_are_refused(world: World) -> None:
    with pytest.raises(NotFoundError, match="there is no blackout"):
        remove(world)
    with pytest.raises(BadRequestError, match="needs a reason"):
        world.order(lambda work: blackouts.remove(work, "freeze"))
