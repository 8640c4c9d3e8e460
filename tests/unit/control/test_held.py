"""What held an operation stands in the trail: when it changes, to whom it concerns."""

from collections.abc import Callable
from typing import Any

import pytest

from forewarn.control.execution import release
from forewarn.control.redaction.sight import Sight
from forewarn.control.requests import failures, verbs
from forewarn.control.requests.verbs import Wishes
from forewarn.control.rules import guard, obstacles, room
from forewarn.control.transactions.work import Who, Work
from forewarn.protocol import blockers
from forewarn.protocol.actors import operator
from forewarn.protocol.blockers import AnyBlocker, Blocker, FaultDomainDown
from forewarn.protocol.operations import Action, Operation, OperationState, Verb
from forewarn.store import kinds
from forewarn.store.audit import AuditEntry, AuditKind
from forewarn.store.kinds import Query, Ranking
from forewarn.store.port import Reader, every
from forewarn.wording.operators import detail_of, reason
from tests.unit.admin.desk import FLEET, LocalDesk

SHARED = FLEET.replace(
    'name = "db"\ntenant = "bank"\nkind = "scale-set"',
    'name = "db"\ntenant = "bank"\nkind = "availability-set"',
).replace(
    'name = "db_1"\nhost = "h2"\nscope = "db"',
    'name = "db_1"\nhost = "h2"\nscope = "db"\nfault_domain = 1',
)
"""web_0 and db_0 are on h1 in fault domain 0, web_1 and db_1 on h2 in the other."""

WEB = "scope web has fault domain 0 down because vm web_0 failed"
DB = "scope db has fault domain 0 down because vm db_0 failed"
SHOP = "another fault domain of scope web is down"
HOST = "scope {} has fault domain 0 down because host h1 failed"
BANK = "another fault domain of scope db is down"
PLATFORM = "the platform holds it back for now"


def desk_of_both() -> LocalDesk:
    """Return a desk whose operator has ordered a restart of h2, which both share."""
    desk = LocalDesk(SHARED)
    order(desk, lambda work: verbs.maintain(work, ["h2"], Action.REBOOT, Wishes()))
    return desk


def order(desk: LocalDesk, decide: Callable[[Work], object]) -> None:
    desk.plane.order(Who(actor=operator("test")), decide, now=desk.now())
    desk.advance("1s")


def fail(desk: LocalDesk, vm: str) -> None:
    order(desk, lambda work: failures.fail_vm(work, vm))


def restore(desk: LocalDesk, vm: str) -> None:
    order(desk, lambda work: failures.restore_vm(work, vm))


def held(desk: LocalDesk, tenant: str = "") -> list[str]:
    """Return what the history tells of what held operations; no tenant: all of it."""

    def ask(reader: Reader) -> list[str]:
        seen = Sight(reader, tenant) if tenant else reader
        return [
            detail_of(line)
            for line in every(seen, kinds.ALL_AUDIT)
            if line.kind is AuditKind.OPERATION_HELD
        ]

    return desk.store.read(ask)


def state(desk: LocalDesk) -> OperationState:
    """Return how far the restart of h2 has come."""
    return operation(desk).state


def now_held_by(desk: LocalDesk) -> tuple[AnyBlocker, ...]:
    """Return what `explain` says of the restart of h2."""
    return desk.store.read(
        lambda reader: obstacles.why_waiting(reader, operation(desk), now=desk.now())
    )


@pytest.mark.parametrize(
    ("failing", "whole", "shop", "bank"),
    [
        ("web_0", WEB, SHOP, PLATFORM),
        ("db_0", DB, PLATFORM, BANK),
    ],
)
def test_each_tenant_is_told_of_its_own_domain_by_name_and_of_no_others(
    failing: str, whole: str, shop: str, bank: str
) -> None:
    desk = desk_of_both()
    fail(desk, failing)
    desk.advance("16m")
    assert state(desk) is OperationState.READY
    assert held(desk) == [whole]
    assert held(desk, "shop") == [shop]
    assert held(desk, "bank") == [bank]
    # It is looked at each minute, and nothing is said twice.
    desk.advance("10m")
    assert held(desk) == [whole]


def test_a_reason_that_comes_later_is_written_when_it_comes() -> None:
    desk = desk_of_both()
    fail(desk, "web_0")
    desk.advance("16m")
    fail(desk, "db_0")
    # It waits for web: what happens in db is noted when it is looked at again.
    desk.advance("2m")
    assert held(desk) == [WEB, f"{DB}; {WEB}"]
    assert held(desk, "shop") == [SHOP, f"{SHOP}; {PLATFORM}"]
    assert held(desk, "bank") == [PLATFORM, f"{BANK}; {PLATFORM}"]


def test_a_reason_that_goes_is_no_longer_told() -> None:
    desk = desk_of_both()
    fail(desk, "web_0")
    fail(desk, "db_0")
    desk.advance("16m")
    restore(desk, "db_0")
    assert held(desk) == [f"{DB}; {WEB}", WEB]
    assert held(desk, "shop") == [f"{SHOP}; {PLATFORM}", SHOP]
    assert held(desk, "bank") == [f"{BANK}; {PLATFORM}", PLATFORM]
    restore(desk, "web_0")
    assert state(desk) is not OperationState.READY
    assert len(held(desk)) == 2


def test_a_cause_that_changes_is_no_news_to_whom_it_is_not_told() -> None:
    def fail_both_alone(work: Work) -> None:
        failures.restore_host(work, "h1")
        failures.fail_vm(work, "web_0")
        failures.fail_vm(work, "db_0")

    desk = desk_of_both()
    order(desk, lambda work: failures.fail_host(work, "h1"))
    desk.advance("16m")
    assert HOST.format("web") in [reason(each) for each in now_held_by(desk)]
    order(desk, fail_both_alone)
    assert {WEB, DB} <= {reason(each) for each in now_held_by(desk)}
    assert len(held(desk)) == 1
    assert held(desk, "shop") == [f"{SHOP}; {PLATFORM}"]
    assert held(desk, "bank") == [f"{BANK}; {PLATFORM}"]


def test_another_tenants_further_troubles_leave_no_trace() -> None:
    third = SHARED + (
        '\n[[vm]]\nname = "db_2"\nhost = "h3"\nscope = "db"\nfault_domain = 2\n'
        '\n[[host]]\nname = "h3"\n'
    )
    desk = LocalDesk(third)
    order(desk, lambda work: verbs.maintain(work, ["h2"], Action.REBOOT, Wishes()))
    fail(desk, "db_0")
    desk.advance("16m")
    before = whole_history(desk, "shop")
    fail(desk, "db_2")
    assert len(held(desk)) == 1
    assert whole_history(desk, "shop") == before
    restore(desk, "db_2")
    assert len(held(desk)) == 1
    assert whole_history(desk, "shop") == before
    assert held(desk, "bank") == [BANK]


def whole_history(desk: LocalDesk, tenant: str) -> list[AuditEntry]:
    """Return a tenant's whole history; no tenant: an operator's."""
    return desk.store.read(
        lambda reader: list(
            every(Sight(reader, tenant) if tenant else reader, kinds.ALL_AUDIT)
        )
    )


# Values: what is stored is what the guard found


def operation(desk: LocalDesk) -> Operation:
    """Return the restart of h2."""
    [found] = desk.store.read(
        lambda reader: [
            each
            for each in reader.select(kinds.ALL_OPERATIONS)
            if each.verb is Verb.MAINTAIN
        ]
    )
    return found


def test_operation_keeps_its_blockers_while_it_is_held_and_no_longer() -> None:
    desk = desk_of_both()
    fail(desk, "web_0")
    assert operation(desk).held_by == ()
    desk.advance("16m")
    [blocker] = operation(desk).held_by
    assert isinstance(blocker, FaultDomainDown)
    assert [cause.target for cause in blocker.causes] == ["web_0"]
    [entry] = [
        line
        for line in whole_history(desk, "")
        if line.kind is AuditKind.OPERATION_HELD
    ]
    assert entry.facts.blockers == (blocker,)
    restore(desk, "web_0")
    assert state(desk) is not OperationState.READY
    assert operation(desk).held_by == ()


def test_noting_what_holds_an_operation_reads_no_history() -> None:
    desk = desk_of_both()
    fail(desk, "web_0")
    desk.advance("16m")
    asked: list[str] = []

    def look(work: Work) -> None:
        select, ranked = work.tx.select, work.tx.ranked

        def counted(query: Query[Any], *args: Any, **more: Any) -> list[Any]:
            asked.append(query.name)
            return select(query, *args, **more)

        def ranks(ranking: Ranking[Any], *args: Any, **more: Any) -> list[Any]:
            asked.append(ranking.name)
            return ranked(ranking, *args, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(work.tx, "select", counted)
            patch.setattr(work.tx, "ranked", ranks)
            release.look_again(work, operation(desk).operation_id)

    fail(desk, "db_0")
    order(desk, look)
    assert "unsteady_domains" in asked
    assert not [name for name in asked if "audit" in name]


def test_no_other_blocker_is_made_where_a_start_is_decided() -> None:
    made = {
        each
        for module in (guard, room)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Blocker)
    }
    deciding = (obstacles.why_not_start, obstacles._busy)
    names = {name for decides in deciding for name in decides.__code__.co_names}
    made |= {each for name, each in vars(obstacles).items() if name in names} & {
        each
        for each in vars(blockers).values()
        if isinstance(each, type) and issubclass(each, Blocker)
    }
    assert {each.kind for each in made} | {"more"} == blockers.GUARD_KINDS
