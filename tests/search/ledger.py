"""The rows of one transaction of the model, and its log: `control.transactions.work`'s twin."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from forewarn.protocol.lifecycle import OperationInput, RequestInput
from tests.search.model import Model
from tests.search.state import Op, State, bits
from tests.search.tables import EVENT_TABLE, OPERATION_TABLE, REQUEST_TABLE

NEW, SCHEDULED, STARTED, REMOVED = range(4)
"""The statuses of an event, in the order of the table."""


@dataclass(slots=True)
class Log:
    """Effects of a transaction that its final state does not show, for invariants."""

    raised: int = 0
    """Scopes whose incarnation rose."""
    born: list[int] = field(default_factory=list[int])
    ended: list[tuple[int, int, Op]] = field(default_factory=list[tuple[int, int, Op]])
    """Slot, last state, and the operation as it was before."""
    released: list[tuple[int, tuple[int, ...], State]] = field(
        default_factory=list[tuple[int, tuple[int, ...], State]]
    )
    """The operations that became ready together, and the state that decided it."""
    started: list[tuple[int, State]] = field(default_factory=list[tuple[int, State]])
    """The operation that started, and the state that decided it."""
    calls: list[int] = field(default_factory=list[int])
    """Driver calls that were made durable, a new generation each."""
    begun: list[tuple[int, State]] = field(default_factory=list[tuple[int, State]])
    """Driver calls that were made, and the state before."""
    freed: list[int] = field(default_factory=list[int])
    revisits: list[int] = field(default_factory=list[int])


class Ledger:
    """The reads and writes of one transaction."""

    def __init__(self, model: Model, state: State, order: Sequence[int] = ()) -> None:
        """Begin; `order` ranks the slots as their operations' ids are sorted."""
        self.model = model
        self.old = state
        self.vms = list(state.vms)
        self.ops = list(state.ops)
        self.requests = list(state.requests)
        self.down = state.down
        self.listening = state.listening
        self.ahead = state.ahead
        self.log = Log()
        self.touched = 0
        self.order = order or range(len(self.ops))

    def end(self) -> State:
        """Render the documents that were touched; return the state."""
        model, old = self.model, self.old
        changed = 0
        for scope in bits(self.touched & self.listening):
            if scope in bits(old.listening):
                before = model.content(old.ops, scope)
                after = model.content(self.ops, scope)
                # An event that takes the place of another in its slot is new.
                if before != after or any(
                    op is not None and op.events >> scope & 1
                    for op in map(self.ops.__getitem__, self.log.born)
                ):
                    changed |= 1 << scope
        self.log.raised |= changed
        return self.kept(changed | (self.listening ^ old.listening))

    def kept(self, fresh: int) -> State:
        """Return the state, with the parts that did not change as they were."""
        old = self.old
        vms, ops, requests = tuple(self.vms), tuple(self.ops), tuple(self.requests)
        return State(
            old.vms if vms == old.vms else vms,
            old.ops if ops == old.ops else ops,
            old.requests if requests == old.requests else requests,
            self.down,
            self.listening,
            fresh if self.model.setting.crashes else 0,
            self.ahead,
        )

    def now(self) -> State:
        """Return the state in the middle of the transaction."""
        return State(
            tuple(self.vms),
            tuple(self.ops),
            tuple(self.requests),
            self.down,
            self.listening,
            0,
            self.ahead,
        )

    # Rows

    def op(self, slot: int) -> Op:
        """Return the open operation of a slot."""
        op = self.ops[slot]
        assert op is not None, f"{self.model.slots[slot].name} is not open"
        return op

    def open(self, vms: int = -1) -> list[int]:
        """Return the slots with open operations of any of the VMs, by their ids."""
        return [
            slot
            for slot in self.order
            if (op := self.ops[slot]) is not None and (vms == -1 or op.vms & vms)
        ]

    def siblings(self, slot: int) -> list[int]:
        """Return the open operations of the same request, by their ids."""
        group = self.model.group[self.model.slots[slot].group]
        return [
            sibling for sibling in self.order if sibling in group and self.ops[sibling]
        ]

    def step(self, slot: int, given: OperationInput) -> Op:
        """Take an operation a step through the table."""
        op = self.op(slot)
        op = op._replace(state=OPERATION_TABLE.step(op.state, given))
        self.ops[slot] = op
        return op

    def step_request(self, group: int, given: RequestInput) -> None:
        """Take a request a step through the table."""
        self.requests[group] = REQUEST_TABLE.step(self.requests[group], given)

    def touch(self, scopes: int, status: int, given: Enum) -> None:
        """Take the events of these scopes a step through the table."""
        if scopes:
            EVENT_TABLE.step(status, given)
            self.touched |= scopes

    def free(self, scopes: int) -> None:
        """Have what waits in these scopes looked at."""
        self.log.freed += [s for s in bits(scopes) if s not in self.log.freed]

    def revisit(self, slot: int) -> None:
        """Have an operation looked at."""
        if slot not in self.log.revisits:
            self.log.revisits.append(slot)
