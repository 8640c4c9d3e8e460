"""The guard at Started: truth tables."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.control.rules.guard import Unsteady, guard
from forewarn.protocol.blockers import (
    NAMED_MAX,
    Blocker,
    Cause,
    FaultDomainDown,
    MigrationUnderWay,
)
from forewarn.protocol.operations import (
    Action,
    Move,
    Operation,
    OperationState,
    TargetKind,
    Verb,
)

OPERATION = Operation(
    operation_id="op-own",
    request="rq-1",
    verb=Verb.MAINTAIN,
    action=Action.FREEZE,
    target_kind=TargetKind.HOST,
    target="h1",
    host="h1",
    state=OperationState.READY,
    routine=True,
    not_before=0,
    moves=(Move(vm="a"),),
    scopes=("web",),
    duration_seconds=9,
    description="",
    created=0,
)
MIGRATION = replace(OPERATION, action=Action.LIVE_MIGRATE)


def cause(operation: str = "op-other", action: Action = Action.REBOOT) -> Cause:
    return Cause(operation=operation, verb=Verb.MAINTAIN, action=action)


def unsteady(fault_domain: int, *causes: Cause, vm: str = "x") -> Unsteady:
    return Unsteady(vm=vm, fault_domain=fault_domain, causes=causes or (cause(),))


def ask(
    operation: Operation,
    own: Mapping[str, set[int]],
    found: Mapping[str, Sequence[Unsteady]],
) -> tuple[Blocker, ...]:
    return guard(
        operation,
        own={scope: frozenset(domains) for scope, domains in own.items()},
        unsteady=found,
    )


def test_fault_domain_with_many_causes_names_three_and_counts_the_rest() -> None:
    causes = [cause(f"op-{number:04d}") for number in range(1_000)]
    [blocker] = ask(OPERATION, {"web": {0}}, {"web": [unsteady(1, *causes)]})
    assert blocker == FaultDomainDown(
        scope="web",
        fault_domain=1,
        causes=tuple(causes[:NAMED_MAX]),
        more=1_000 - NAMED_MAX,
    )


@pytest.mark.clause("6.3")
@pytest.mark.parametrize("routine", [True, False])
@pytest.mark.parametrize("own", [{0}, {1}, {0, 1}])
@pytest.mark.parametrize("down", [(), (0,), (1,), (0, 1)])
def test_routine_operation_is_held_by_other_down_fault_domains(
    routine: bool, own: set[int], down: tuple[int, ...]
) -> None:
    operation = replace(OPERATION, routine=routine)
    blockers = ask(
        operation, {"web": own}, {"web": [unsteady(domain) for domain in down]}
    )
    wanted = [domain for domain in down if own != {domain}] if routine else []
    assert blockers == tuple(
        FaultDomainDown(scope="web", fault_domain=domain, causes=(cause(),))
        for domain in wanted
    )


@pytest.mark.clause("6.3")
@pytest.mark.parametrize("action", [Action.FREEZE, Action.LIVE_MIGRATE])
@pytest.mark.parametrize("other", Action)
@pytest.mark.parametrize("domain", [0, 1])
def test_only_one_migration_per_scope_runs_at_a_time(
    action: Action, other: Action, domain: int
) -> None:
    blockers = ask(
        replace(OPERATION, action=action),
        {"web": {0}},
        {"web": [unsteady(domain, cause(action=other))]},
    )
    kinds = [type(blocker) for blocker in blockers]
    both = action is Action.LIVE_MIGRATE and other is Action.LIVE_MIGRATE
    assert kinds == [FaultDomainDown] * (domain == 1) + [MigrationUnderWay] * both


@pytest.mark.clause("6.3")
def test_operation_is_not_held_by_its_own_effects() -> None:
    own = unsteady(0, cause("op-own"))
    assert ask(OPERATION, {"web": {0}}, {"web": [own]}) == ()
    assert ask(OPERATION, {"web": {1}}, {"web": [own]}) == ()
    both = unsteady(0, cause("op-own"), cause())
    (blocker,) = ask(OPERATION, {"web": {1}}, {"web": [both]})
    assert blocker == FaultDomainDown(scope="web", fault_domain=0, causes=(cause(),))


@pytest.mark.clause("6.3")
def test_every_scope_is_checked_and_every_reason_is_reported_once() -> None:
    down = Cause()
    blockers = ask(
        MIGRATION,
        {"web": {0}, "db": {1}, "idle": {0}},
        {
            "web": [
                unsteady(2, down, vm="x"),
                unsteady(1, cause("op-a", Action.LIVE_MIGRATE), cause("op-b"), vm="y"),
                unsteady(1, cause("op-b"), vm="z"),
            ],
            "db": [unsteady(0, cause("op-a", Action.LIVE_MIGRATE))],
            "foreign": [unsteady(7)],
        },
    )
    migration = cause("op-a", Action.LIVE_MIGRATE)
    assert blockers == (
        FaultDomainDown(scope="db", fault_domain=0, causes=(migration,)),
        MigrationUnderWay(scope="db", operation="op-a"),
        FaultDomainDown(
            scope="web",
            fault_domain=1,
            causes=(migration, cause("op-b")),
        ),
        FaultDomainDown(scope="web", fault_domain=2, causes=(Cause(),)),
        MigrationUnderWay(scope="web", operation="op-a"),
    )


@pytest.mark.clause("6.3")
@given(
    st.sets(st.integers(0, 3), min_size=1, max_size=2),
    st.lists(st.integers(0, 3), max_size=4),
)
def test_passed_operation_never_affects_a_second_fault_domain(
    own: set[int], down: list[int]
) -> None:
    found = [unsteady(domain, vm=f"v{at}") for at, domain in enumerate(down)]
    passes = not ask(OPERATION, {"web": own}, {"web": found})
    assert passes is (len(own | set(down)) == 1 or not down)


@pytest.mark.clause("6.3")
def test_user_operations_evictions_deletions_and_failures_always_pass() -> None:
    everything = {
        "web": [
            unsteady(domain, cause(action=action))
            for domain, action in itertools.product((0, 1), Action)
        ]
    }
    for action in Action:
        operation = replace(OPERATION, action=action, routine=False)
        assert ask(operation, {"web": {0}}, everything) == ()
