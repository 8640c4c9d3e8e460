"""The transactions of the model by name, and what can happen in a state.

Each takes a `Turn` and a number: a host, an operator or a stage. `RefusedError` means that
the code refuses it, or that it cannot happen in this state.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from forewarn.campaigns.lifecycle import CampaignInput
from forewarn.campaigns.record import HaltCause
from tests.search.campaigns.model import Model
from tests.search.campaigns.settings import HOSTS, RACKS
from tests.search.campaigns.state import (
    ANNOUNCED,
    READY,
    RECOVERING,
    SKIPPED,
    TAKE_TURN,
    WAITING,
    WORKING,
    Course,
    Item,
    Label,
    RefusedError,
    State,
    call,
    look,
    need,
)
from tests.search.campaigns.turn import Turn

TICK = Label("tick")
CRASH = Label("crash")
ALL_OPERATORS = 3

# Steps of operators


def pause(turn: Turn, who: int) -> None:
    need(so=not turn.course.has_ended and not turn.course.pauses >> who & 1)
    paused = turn.decisions.step(turn.course, CampaignInput.PAUSE)
    turn.course = paused._replace(pauses=paused.pauses | 1 << who)
    _continue(turn)


def resume(turn: Turn, who: int) -> None:
    course = turn.course
    left = 0
    if who != ALL_OPERATORS:
        left = turn.model.pauses_left(course.pauses, who)
    need(so=not course.has_ended and bool(course.halt or course.pauses))
    need(so=bool(course.halt) or left != course.pauses)
    step_input = CampaignInput.RESUME_PAUSED if left else CampaignInput.RESUME
    if course.halt:
        turn.free_held()
    resumed = turn.model.resumed(course, turn.hour)
    turn.course = turn.decisions.step(resumed, step_input)._replace(pauses=left)
    _continue(turn)


def halt(turn: Turn, _who: int) -> None:
    turn.halt(HaltCause.OPERATOR)


def abort(turn: Turn, _who: int) -> None:
    """End the campaign: hosts that have not started are skipped."""
    need(so=not turn.course.has_ended)
    aborted = turn.decisions.step(turn.course, CampaignInput.ABORT)
    turn.course = aborted._replace(halt="", pauses=0, due=-1)
    turn.take_turn()
    for states in ({ANNOUNCED, READY}, {WAITING}):
        for host in list(turn.queue):
            if turn.items[host].how in states:
                turn.cancelled(host)


def approve_stage(turn: Turn, stage: int) -> None:
    course, stages = turn.course, turn.model.setting.stages
    need(so=not course.has_ended and stage == course.stage + 1 <= len(stages))
    need(so=stages[course.stage - 1].approval and not course.is_approved)
    need(so=not (turn.model.approves_results and course.stage_left))
    turn.course = course._replace(is_approved=True)
    _continue(turn)


def retry(turn: Turn, host: int) -> None:
    need(so=not turn.course.has_ended and bool(turn.course.failed >> host & 1))
    turn.course = turn.decisions.retried(turn.course, turn.hour, host)
    turn.plan_again(host)
    turn.freed(host)
    _continue(turn)


def skip(turn: Turn, host: int) -> None:
    need(so=not turn.course.has_ended)
    if turn.course.failed >> host & 1:
        turn.given_up(host)
    else:
        need(so=turn.items[host].how in {WAITING, ANNOUNCED, READY})
        turn.cancelled(host)
    _continue(turn)


def brake_on(turn: Turn, withdraws: int) -> None:
    need(so=turn.brake <= withdraws)
    turn.brake = 1 + withdraws
    if withdraws and not turn.course.halt and not turn.course.has_ended:
        turn.halt(HaltCause.BRAKE)


def brake_off(turn: Turn, _second: int) -> None:
    need(so=bool(turn.brake))
    turn.brake = 0
    turn.free_held()
    for host, item in enumerate(turn.items):
        if item.is_braked and turn.model.wakes:
            turn.pending |= call(host)


def _continue(turn: Turn) -> None:
    if turn.model.takes_turns:
        turn.take_turn()


def open_host(turn: Turn, host: int) -> None:
    """Let a host take VMs again that has failed before."""
    need(so=bool(turn.cordons >> host & 1))
    need(so=turn.items[host].how in {SKIPPED, WAITING})
    turn.cordons &= ~(1 << host)


# What VMs, the driver and the fleet do


def approve(turn: Turn, host: int) -> None:
    """Approve the event of a host, as its VM."""
    need(so=turn.items[host].how == ANNOUNCED)
    turn.release(host)


def done(turn: Turn, host: int) -> None:
    need(so=turn.items[host].how == WORKING)
    recovery = turn.model.setting.recovery
    if recovery:
        turn.items[host] = Item(RECOVERING, left=recovery)
    else:
        turn.finished(host)


def failed(turn: Turn, host: int) -> None:
    need(so=turn.items[host].how == WORKING)
    turn.broken(host)


def fail_host(turn: Turn, host: int) -> None:
    """Note that a host is down, and its VM with it."""
    need(so=not turn.down >> host & 1)
    turn.down |= 1 << host
    how = turn.items[host].how
    if how in {WORKING, RECOVERING}:
        turn.broken(host)
    elif how in {ANNOUNCED, READY}:
        turn.withdrawn(host)
    turn.lost(host)


def restore_host(turn: Turn, host: int) -> None:
    need(so=bool(turn.down >> host & 1))
    turn.down &= ~(1 << host)
    turn.blamed &= ~(1 << host)
    turn.freed(host)


# Steps that follow


def go_on(turn: Turn, _second: int) -> None:
    turn.pending &= ~TAKE_TURN
    turn.go_on()


def call_up(turn: Turn, host: int) -> None:
    turn.pending &= ~call(host)
    turn.call_up(host)


def check(turn: Turn, host: int) -> None:
    turn.pending &= ~look(host)
    turn.checked(host)


Transaction: TypeAlias = Callable[[Turn, int], None]

OF_OPERATORS: Mapping[str, Transaction] = {
    "pause": pause,
    "resume": resume,
    "halt": halt,
    "abort": abort,
    "approve stage": approve_stage,
    "retry": retry,
    "skip": skip,
    "brake on": brake_on,
    "brake off": brake_off,
    "open host": open_host,
}
OF_OTHERS: Mapping[str, Transaction] = {
    "approve": approve,
    "done": done,
    "failed": failed,
    "fail host": fail_host,
    "restore host": restore_host,
}
FOLLOWING: Mapping[str, Transaction] = {
    "turn": go_on,
    "call": call_up,
    "look": check,
}
TRANSACTIONS = {**OF_OPERATORS, **OF_OTHERS, **FOLLOWING}


def transact(model: Model, state: State, label: Label) -> State:
    """Run a transaction; raises RefusedError."""
    turn = Turn(model, state)
    TRANSACTIONS[label.what](turn, label.first)
    return turn.end()


def ticked(model: Model, state: State) -> State:
    """Let a tick pass: every timer comes nearer."""
    course = state.course
    course = course._replace(
        soak=max(course.soak - 1, min(course.soak, 0)),
        due=max(course.due - 1, min(course.due, 0)),
    )
    items = tuple(
        item._replace(left=item.left - 1) if item.left else item for item in state.items
    )
    pending = state.pending
    for host, item in enumerate(items):
        pending |= look(host) if item.how == READY else 0
    after = state._replace(
        course=course,
        items=items,
        hour=(state.hour + 1) % model.setting.day,
        pending=pending,
    )
    return after._replace(pending=after.pending | model.overdue(after))


# Steps that are possible


def labels(model: Model, state: State) -> Iterator[Label]:
    """Yield what operators, VMs, the driver and the fleet may do, allowed or not."""
    setting, course = model.setting, state.course
    for who in range(setting.pauses):
        yield Label("pause", who)
        yield Label("resume", who)
    if setting.pauses or setting.halts or setting.work_fails or setting.brakes:
        yield Label("resume", ALL_OPERATORS)
    if setting.halts:
        yield Label("halt")
    if setting.aborts:
        yield Label("abort")
    if any(stage.approval for stage in setting.stages):
        yield Label("approve stage", course.stage + 1)
    if setting.brakes:
        yield Label("brake on", 0)
        yield Label("brake on", 1)
        yield Label("brake off")
    for host in range(HOSTS):
        yield from _of_host(model, state, host)


def _of_host(model: Model, state: State, host: int) -> Iterator[Label]:
    setting = model.setting
    has_failed = state.course.failed >> host & 1
    if has_failed and setting.retries:
        yield Label("retry", host)
    if has_failed or setting.skips:
        yield Label("skip", host)
    how = state.items[host].how
    if setting.unavailable and state.cordons >> host & 1 and how in {SKIPPED, WAITING}:
        yield Label("open host", host)
    if how == ANNOUNCED:
        yield Label("approve", host)
    elif how == WORKING:
        yield Label("done", host)
        if setting.work_fails:
            yield Label("failed", host)
    if host in setting.hosts_fail:
        yield Label("restore host" if state.down >> host & 1 else "fail host", host)


def pending(state: State) -> Iterator[Label]:
    """Yield the steps that the service remembers, and the timers that are due."""
    if state.pending & TAKE_TURN:
        yield Label("turn")
    for host in range(HOSTS):
        if state.pending & call(host):
            yield Label("call", host)
        if state.pending & look(host):
            yield Label("look", host)


class Step(NamedTuple):
    """A step that was taken."""

    label: Label
    after: State


def steps(model: Model, state: State) -> Iterator[Step]:
    """Yield every step that can be taken."""
    for label in (*pending(state), *labels(model, state)):
        try:
            yield Step(label, transact(model, state, label))
        except RefusedError:
            continue
    yield Step(TICK, ticked(model, state))
    if model.setting.crashes:
        yield Step(CRASH, model.restarted(state))
    for first, second in equals(model, state):
        yield Step(Label("swap", first * HOSTS + second), swapped(state, first, second))


def settled(model: Model, state: State) -> State:
    """Take the pending steps until nothing follows."""
    while True:
        label = next(pending(state), None)
        if label is None:
            return state
        state = transact(model, state, label)


def equals(model: Model, state: State) -> Iterator[tuple[int, int]]:
    """Yield neighbours in the order that are equal: a plan could swap them (K10)."""
    waiting = [host for host in state.queue if state.items[host].how == WAITING]
    for first, second in pairwise(waiting):
        one, other = (
            (
                model.stage_of(host),
                RACKS[host],
                state.cordons >> host & 1,
                state.items[host].waits,
            )
            for host in (first, second)
        )
        if one == other:
            yield first, second


def swapped(state: State, first: int, second: int) -> State:
    """Return the state with two hosts in each other's place of the order."""
    other = {first: second, second: first}
    return state._replace(queue=tuple(other.get(host, host) for host in state.queue))


def is_over(course: Course, state: State) -> bool:
    """Return whether the campaign has ended, and all its work."""
    return course.has_ended and not any(item.is_open for item in state.items)
