"""The possible steps of a world, from every state.

In most worlds a step is one transaction, and transactions come in any order:
timers fire late, what was set free is looked at whenever it suits, and where the
world says so a crash comes between the commit, the publication and the call. In a
*steady* world a step continues until nothing more follows, as `Plane._settle` does;
there nothing may be left waiting that could go.
"""

import contextlib
from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.search.labels import due, labels, timers
from tests.search.ledger import Log
from tests.search.model import Model
from tests.search.state import (
    MADE,
    READY,
    UNMADE,
    Label,
    State,
)
from tests.search.transactions import RefusedError, begin, ticked, transact

TICK = Label("tick")
PUBLISH = Label("publish")
CRASH = Label("crash")

FAIR = (
    "publish",
    "begin",
    "resolve done",
    "restore host",
    "restore vm",
    "done",
    "look",
    "recovered",
    "call again",
    "tick",
)
"""Steps that come by themselves, or that are pending; the first comes first."""


class Part(NamedTuple):
    """One transaction, or one effect, of a step."""

    label: Label
    before: State
    after: State
    log: Log


class Step(NamedTuple):
    """A step that was taken, with its parts."""

    label: Label
    after: State
    parts: tuple[Part, ...]


def steps(model: Model, state: State) -> Iterator[Step]:
    """Yield every step that can be taken, also those that change nothing."""
    unmade = [n for n, op in enumerate(state.ops) if op and op.call == UNMADE]
    if state.unpublished or unmade:
        yield from _effects(model, state, unmade)
        return
    for label in labels(model, state):
        yield from _taken(model, state, label)
    if model.setting.steady:
        if _time_matters(model, state):
            yield _settled_tick(model, state, ())
        return
    for label in timers(model, state):
        yield from _taken(model, state, label)
    if _time_matters(model, state):
        yield _single(TICK, state, ticked(model, state), Log())
    if model.setting.crashes and any(op and op.call == MADE for op in state.ops):
        yield _crash(model, state)


def _single(label: Label, before: State, after: State, log: Log) -> Step:
    return Step(label, after, (Part(label, before, after, log),))


def _effects(model: Model, state: State, unmade: Sequence[int]) -> Iterator[Step]:
    """Yield what follows a commit: publish, then call; or a crash."""
    if state.unpublished:
        yield _single(PUBLISH, state, state._replace(unpublished=0), Log())
    if unmade and not (state.unpublished and model.publishes_first):
        log = Log()
        label = Label("begin", unmade[0])
        yield _single(label, state, begin(state, unmade[0], log), log)
    yield _crash(model, state)


def _crash(model: Model, state: State) -> Step:
    """Crash, and begin again on what is durable: probe each call (`Plane.start`)."""
    log = Log()
    after = model.kept(state)
    for slot, op in enumerate(after.ops):
        if op is not None and op.call in {UNMADE, MADE} and model.calls_again(op):
            after = begin(after, slot, log)
    return _single(CRASH, state, after, log)


def _taken(model: Model, state: State, label: Label) -> Iterator[Step]:
    try:
        after, log = transact(model, state, label)
    except RefusedError:
        return
    part = Part(label, state, after, log)
    if model.setting.steady:
        parts = (part, *settle(model, after, [log], ()))
        yield Step(label, parts[-1].after, parts)
    else:
        yield Step(label, after, (part,))


def _time_matters(model: Model, state: State) -> bool:
    return ticked(model, state) != state


# Steady worlds


def settle(
    model: Model, state: State, logs: Sequence[Log], order: Sequence[int]
) -> list[Part]:
    """Look at what was set free until nothing follows (`Plane._settle`)."""
    revisits: deque[int] = deque()
    freed: deque[int] = deque()
    parts: list[Part] = []
    for log in logs:
        revisits.extend(log.revisits)
        freed.extend(log.freed if model.wakes else ())

    def look(slot: int) -> None:
        nonlocal state
        before = state
        state, log = transact(model, state, Label("look", slot), order)
        parts.append(Part(Label("look", slot), before, state, log))
        revisits.extend(log.revisits)
        freed.extend(log.freed if model.wakes else ())

    while revisits or freed:
        if revisits:
            look(revisits.popleft())
        else:
            scope = freed.popleft()
            ready = [
                slot
                for slot in order or range(len(state.ops))
                if (op := state.ops[slot]) is not None
                and op.state == READY
                and op.scopes >> scope & 1
            ]
            for slot in ready:
                look(slot)
    return parts


def _settled_tick(model: Model, state: State, order: Sequence[int]) -> Step:
    parts = settled_tick(model, state, order)
    return Step(TICK, parts[-1].after, tuple(parts))


def settled_tick(model: Model, state: State, order: Sequence[int]) -> list[Part]:
    """Let a tick pass and all that is due happen (`Plane.advance`)."""
    after = ticked(model, state)
    parts = [Part(TICK, state, after, Log())]
    for slot in order or range(len(after.ops)):
        label = due(model, after, slot)
        if label is None:
            continue
        now = before = parts[-1].after
        log = Log()
        # Where what was due has happened meanwhile, nothing changes.
        with contextlib.suppress(RefusedError):
            if before.ops[slot] is not None:
                now, log = transact(model, before, label, order)
        parts.append(Part(label, before, now, log))
        parts += settle(model, now, [log], order)
    return parts
