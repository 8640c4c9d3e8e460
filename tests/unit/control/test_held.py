"""What held an operation stands in the trail: when it changes, to whom it concerns."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from forewarn.control import (
    blockers,
    failures,
    guard,
    neutral,
    obstacles,
    release,
    room,
    verbs,
)
from forewarn.control.blockers import Blocker
from forewarn.control.sight import Sight
from forewarn.control.verbs import Wishes
from forewarn.control.work import Who, Work
from forewarn.fleet.model import Host, HostState, Scope, ScopeKind, Vm
from forewarn.fleet.placement import Candidate, why_none
from forewarn.protocol.operations import Action, OperationState, Verb
from forewarn.store import kinds
from forewarn.store.audit import AuditEntry
from forewarn.store.port import Reader, every
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
    desk.plane.order(Who(actor="test"), decide, now=desk.now())
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
            line.detail
            for line in every(seen, kinds.ALL_AUDIT)
            if line.what == release.HELD
        ]

    return desk.store.read(ask)


def state(desk: LocalDesk) -> OperationState:
    """Return how far the restart of h2 has come."""
    [found] = desk.store.read(
        lambda reader: [
            each
            for each in reader.select(kinds.ALL_OPERATIONS)
            if each.verb is Verb.MAINTAIN
        ]
    )
    return found.state


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
    desk = desk_of_both()
    fail(desk, "web_0")
    fail(desk, "db_0")
    desk.advance("16m")
    order(desk, lambda work: failures.fail_host(work, "h1"))
    assert held(desk)[1:] == [f"{HOST.format('db')}; {HOST.format('web')}"]
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
    assert len(held(desk)) == 2
    assert whole_history(desk, "shop") == before
    restore(desk, "db_2")
    assert len(held(desk)) == 3
    assert whole_history(desk, "shop") == before
    assert held(desk, "bank") == [BANK]


def whole_history(desk: LocalDesk, tenant: str) -> list[AuditEntry]:
    """Return a tenant's whole history."""
    return desk.store.read(
        lambda reader: list(every(Sight(reader, tenant), kinds.ALL_AUDIT))
    )


# Sentences: what is written is read again for tenants


def candidate(name: str, **more: Any) -> Candidate:
    return Candidate(host=Host(name=name, **more), load=0, domains=frozenset())


def why_no_place() -> Iterator[str]:
    """Yield what may be said of a VM without a place, reason by reason and at once."""
    scope = Scope(name="web", tenant="shop", kind=ScopeKind.SCALE_SET)
    vm = Vm(
        name="web_0",
        wire_name="web_0",
        vm_id="1",
        host="h1",
        scope="web",
        tenant="shop",
        view="web",
    )
    hosts = [
        candidate("h1"),
        candidate("h2", state=HostState.DOWN),
        replace(candidate("h3"), busy=True),
        replace(candidate("h4", capacity=1), load=1),
        candidate("h5", zone="2"),
        replace(candidate("h6"), domains=frozenset({1})),
    ]
    for some in ([], *([each] for each in hosts), hosts, hosts[1:]):
        why = why_none(vm, scope, zone="", candidates=some)
        assert why
        yield why


HOLDING: dict[type[Blocker], list[Blocker]] = {
    blockers.FaultDomainDown: [
        blockers.FaultDomainDown(scope="web", fault_domain=1, because=because)
        for because in [
            ("host h2 failed",),
            ("vm web_1 failed", "op-1 has started: maintain (reboot) of host h2"),
            ("it is down",),
        ]
    ],
    blockers.MigrationUnderWay: [
        blockers.MigrationUnderWay(scope="web", operation="op-1")
    ],
    blockers.VmBusy: [blockers.VmBusy(vm="web_0", operation="op-1")],
    blockers.VmDown: [blockers.VmDown(vm="web_0")],
    blockers.NoRoom: [blockers.NoRoom(vm="web_0", why=why) for why in why_no_place()],
}
"""What can keep an operation from starting that was let go, as it is written."""


@pytest.mark.parametrize(
    "blocker", [each for several in HOLDING.values() for each in several]
)
def test_each_sentence_that_is_written_is_known_by_one_pattern(
    blocker: Blocker,
) -> None:
    begin, *rest = blocker.sentence().split(neutral.JOINT)
    assert sum(1 for each in neutral._SENTENCES if each.match(begin)) == 1
    # What a sentence goes on with behind a semicolon begins no other.
    assert not any(each.match(part) for each in neutral._SENTENCES for part in rest)
    # A tenant that is not concerned is told the same of each: nothing.
    assert neutral.told(blocker.sentence(), {"scope:db", "vm:db_0"}) in {
        neutral.HELD,
        neutral.DOWN,
    }


@pytest.mark.parametrize(
    "blocker", [each for several in HOLDING.values() for each in several]
)
def test_the_trail_and_explain_tell_a_tenant_the_same(blocker: Blocker) -> None:
    for scopes, vms in [({"web"}, {"web_0"}), ({"db"}, {"db_0"})]:
        explained = neutral.for_tenant([blocker], scopes=scopes, vms=vms)
        subjects = {f"scope:{each}" for each in scopes} | {f"vm:{each}" for each in vms}
        assert neutral.told(blocker.sentence(), subjects) == neutral.JOINT.join(
            each.sentence() for each in explained
        )


def test_what_no_pattern_knows_is_told_to_no_tenant() -> None:
    assert neutral.told("host h9 of the bank burns", {"scope:web", "vm:web_0"}) == ""


def test_no_other_reason_is_made_where_a_start_is_decided() -> None:
    made = {
        each
        for module in (guard, room)
        for each in vars(module).values()
        if isinstance(each, type) and issubclass(each, Blocker) and each is not Blocker
    }
    deciding = (obstacles.why_not_start, obstacles._busy)
    names = {name for decides in deciding for name in decides.__code__.co_names}
    made |= {each for name, each in vars(obstacles).items() if name in names} & {
        each for each in vars(blockers).values() if isinstance(each, type)
    }
    assert made == set(HOLDING)
