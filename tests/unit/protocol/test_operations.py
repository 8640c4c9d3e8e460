"""Operations and requests as values."""

from __future__ import annotations

from dataclasses import replace

import pytest

from forewarn.protocol.actors import operator
from forewarn.protocol.operations import (
    ENDED_STATES,
    MOVING_ACTIONS,
    STARTED_STATES,
    WAITING_STATES,
    Action,
    Move,
    Operation,
    OperationState,
    Promise,
    Request,
    RequestState,
    TargetKind,
    Verb,
)

OPERATION = Operation(
    operation_id="op-1",
    request="rq-1",
    verb=Verb.MAINTAIN,
    action=Action.FREEZE,
    target_kind=TargetKind.HOST,
    target="h1",
    host="h1",
    state=OperationState.PLANNED,
    routine=True,
    not_before=0,
    moves=(Move(vm="b"), Move(vm="a")),
    scopes=("web",),
    duration_seconds=9,
    description="",
    created=0,
)


def test_each_state_belongs_to_one_kind() -> None:
    kinds = [{OperationState.PLANNED}, WAITING_STATES, STARTED_STATES, ENDED_STATES]
    assert sorted(state.value for kind in kinds for state in kind) == sorted(
        state.value for state in OperationState
    )


def test_operation_keeps_the_order_of_its_vms() -> None:
    assert OPERATION.vms == ("b", "a")
    assert OPERATION.key == "op-1"


@pytest.mark.clause("5.4")
def test_promised_time_is_the_one_that_all_scopes_have_in_common() -> None:
    promised = replace(
        OPERATION,
        promises=(
            Promise(scope="db", opens=10, closes=30),
            Promise(scope="web", opens=20, closes=50),
        ),
    )
    assert promised.promised == (20, 30)
    assert OPERATION.promised is None


def test_operation_with_a_given_time_waits_for_it() -> None:
    assert replace(OPERATION, not_before=7, is_timed=True).given_time == 7
    assert replace(OPERATION, not_before=7).given_time == 0


def test_operation_on_a_host_is_bound_to_it() -> None:
    assert OPERATION.is_host_bound
    of_vm = replace(OPERATION, target_kind=TargetKind.VM, verb=Verb.REBOOT)
    assert not of_vm.is_host_bound
    assert replace(of_vm, verb=Verb.PREDICT_FAILURE).is_host_bound


def test_only_two_actions_move_vms() -> None:
    assert {action.value for action in MOVING_ACTIONS} == {"live-migrate", "redeploy"}


def test_a_request_is_found_by_its_id() -> None:
    request = Request(
        request_id="rq-1",
        verb=Verb.REBOOT,
        actor=operator("me"),
        reason="",
        state=RequestState.OPEN,
        together=False,
        is_rollout=False,
        created=0,
    )
    assert request.key == "rq-1"
