"""What must hold in every state, and of every part of a step: S1 to S12.

They are written from the clauses and share no code with the model's steps. The
numbers are those of the service's design; `docs/proofs.md` says them in words.
"""

from collections.abc import Iterator

from forewarn.protocol.operations import Action
from tests.search.model import Model
from tests.search.state import (
    CANCELLED,
    DONE,
    DOWN,
    FAILED,
    GONE,
    IMPACTING,
    MADE,
    NO_CALL,
    NOTICED,
    READY,
    RECOVERING,
    Op,
    State,
    bits,
)
from tests.search.steps import Part


class BrokenError(Exception):
    """An invariant does not hold."""

    def __init__(self, name: str, why: str) -> None:
        """Name the invariant, and say what breaks it."""
        super().__init__(f"{name}: {why}")
        self.name = name
        self.why = why



def unsteady(state: State, besides: int, members: int) -> Iterator[int]:
    """Yield the VMs that are down, or that another operation has started on."""
    touched = 0
    for slot, op in enumerate(state.ops):
        if op is not None and op.state >= IMPACTING and slot != besides:
            touched |= op.vms
    for vm in bits(members):
        how = state.vms[vm].how
        if how == DOWN or (how != GONE and touched >> vm & 1):
            yield vm


class Invariants:
    """The invariants of one world."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.slots = model.slots
        self.routine = [slot.routine for slot in model.slots]
        self.checked = 0

    # States

    def of_state(self, state: State) -> None:
        """Raise BrokenError if an invariant of states does not hold."""
        begun = [
            (slot, op)
            for slot, op in enumerate(state.ops)
            if op is not None and op.state >= IMPACTING
        ]
        if len(begun) > 1:
            self._s1(begun)
        self._announced(state)
        self._calls(begun)
        self._down(state, begun)

    def _s1(self, begun: list[tuple[int, Op]]) -> None:
        """S1: routine impacts touch one fault domain; S1b: one migration."""
        for scope, members in enumerate(self.model.members):
            domains: set[int] = set()
            migrations = 0
            for slot, op in begun:
                vms = op.vms & members
                if vms and self.routine[slot]:
                    domains.update(self.model.domain_of[vm] for vm in bits(vms))
                    migrations += self.model.is_migration[slot]
            if len(domains) > 1:
                raise BrokenError("S1", f"scope {scope} has domains {domains} down")
            if migrations > 1:
                raise BrokenError("S1b", f"scope {scope} has {migrations} migrations")

    def _announced(self, state: State) -> None:
        """S10: whoever is concerned is told (4.7), and nobody else is."""
        for slot, op in enumerate(state.ops):
            if op is None:
                continue
            told = self.model.scopes(op.vms) & self.model.announced[slot]
            if op.events != told:
                raise BrokenError("S10", f"{self.slots[slot].name} has other events")
            if op.approved & ~told:
                raise BrokenError("S4", f"{self.slots[slot].name}: a foreign approval")

    def _calls(self, begun: list[tuple[int, Op]]) -> None:
        """S10: Started means a call or a failure; no VM is in two hands."""
        hands = 0
        for slot, op in begun:
            works = op.state == IMPACTING and not self.model.is_failure[slot]
            if works == (op.call == NO_CALL):
                raise BrokenError("S10", f"{self.slots[slot].name} has a wrong call")
            if works:
                if hands & op.vms:
                    raise BrokenError("S11", "two calls meet on one VM")
                hands |= op.vms

    def _down(self, state: State, begun: list[tuple[int, Op]]) -> None:
        """S12: whatever is down is in a Started failure, and nothing else is."""
        named = 0
        for slot, op in begun:
            if self.model.is_failure[slot]:
                named |= op.vms
        for number, vm in enumerate(state.vms):
            if (vm.how == DOWN) != bool(named >> number & 1):
                raise BrokenError("S12", f"v{number} is down and not told, or told")
            if vm.how != DOWN and vm.how != GONE and state.down >> vm.host & 1:
                raise BrokenError("S12", f"v{number} runs on a host that is down")

    # Parts of steps

    def of_part(self, part: Part) -> None:
        """Raise BrokenError if an invariant of steps does not hold."""
        self.checked += 1
        old, new, log = part.before, part.after, part.log
        if log.started:
            for slot, moment in log.started:
                self._s2(slot, moment)
        if log.released:
            for slot, companions, moment in log.released:
                self._s3(slot, companions, moment)
        if old is new:
            return
        what = part.label.what
        if what == "approve":
            self._s4(part)
        elif what == "crash":
            self._s11_durable(old, new)
        if old.ops is not new.ops:
            changed = [
                (slot, before, after)
                for slot, (before, after) in enumerate(
                    zip(old.ops, new.ops, strict=True)
                )
                if before is not after
            ]
            self._forward(part, changed)
        if log.begun:
            self._begun(part)
        if old.unpublished or what != "publish":
            self._s8(part)

    def _s2(self, slot: int, moment: State) -> None:
        """S2: nothing routine starts while another fault domain is down."""
        if not self.routine[slot]:
            return
        own = moment.ops[slot]
        assert own is not None
        for scope, members in enumerate(self.model.members):
            mine = own.vms & members
            if not mine:
                continue
            domains = {self.model.domain_of[vm] for vm in bits(mine)}
            for vm in unsteady(moment, slot, members):
                if domains != {self.model.domain_of[vm]}:
                    raise BrokenError(
                        "S2", f"{self.slots[slot].name} starts while v{vm} is down"
                    )

    def _s3(self, slot: int, companions: tuple[int, ...], moment: State) -> None:
        """S3: nothing goes before NotBefore that is not approved by everybody.

        Deletions of one order wait for each other (3.6).
        """
        must = {slot, *companions}
        if self.slots[slot].together:
            must |= {
                sibling
                for sibling in self.model.group[self.slots[slot].group]
                if (op := moment.ops[sibling]) is not None and op.state <= READY
            }
        for each in must:
            op = moment.ops[each]
            assert op is not None
            if op.left > 0 and op.events & ~op.approved:
                raise BrokenError("S3", f"{self.slots[each].name} goes too early")

    def _s4(self, part: Part) -> None:
        """S4, S5: an approval is for one event, and late ones do nothing."""
        scope, slot = part.label.first, part.label.second
        for number, (before, after) in enumerate(
            zip(part.before.ops, part.after.ops, strict=True)
        ):
            if before is None or before is after:
                continue
            if number == slot:
                if before.state >= IMPACTING or not before.events >> scope & 1:
                    raise BrokenError("S5", "a void approval changes something")
                new = (after.approved & ~before.approved) if after else 0
                if new & ~(1 << scope):
                    raise BrokenError("S4", "an approval covers another scope's event")
            elif after is not None and after.approved & ~before.approved:
                raise BrokenError("S4", "an approval covers another operation's event")

    def _forward(
        self, part: Part, changed: list[tuple[int, Op | None, Op | None]]
    ) -> None:
        """S6, S7, S11, S12: operations and events go forward, and none is lost."""
        log, ticks = part.log, part.label.what == "tick"
        ended = {slot: last for slot, last, _ in log.ended}
        for slot, before, after in changed:
            name = self.slots[slot].name
            if slot in log.born:
                born = slot in ended or before is None
                if not born:
                    raise BrokenError("S7", f"{name} has two operations")
                if after is not None and after.state <= READY:
                    self._s6_notice(part, slot, after)
                continue
            if before is None:
                raise BrokenError("S7", f"{name} comes back from the dead")
            if after is None:
                self._ended(slot, before, ended.get(slot))
                continue
            if after.state < before.state:
                raise BrokenError("S7", f"{name} goes backwards")
            if after.events & ~before.events:
                raise BrokenError("S7", f"{name} has an event again")
            if after.vms & ~before.vms:
                raise BrokenError("S7", f"{name} has more resources")
            if after.state == before.state == NOTICED:
                if after.left != before.left - (ticks and before.left > 0):
                    raise BrokenError("S6", f"{name} moves its NotBefore")
                if before.approved & ~after.approved & after.events:
                    raise BrokenError("S11", f"{name} forgets an approval")

    def _s6_notice(self, part: Part, slot: int, op: Op) -> None:
        """S6: whoever must be told is told early enough."""
        least = self.model.setting.notice if op.events else 0
        if op.left < least and op.state == NOTICED:
            raise BrokenError("S6", f"{self.slots[slot].name} has too little notice")
        if part.label.what == "anew" and op.approved:
            raise BrokenError("S6", "an approval of an old event counts for a new one")

    def _ended(self, slot: int, before: Op, last: int | None) -> None:
        name = self.slots[slot].name
        if last is None:
            raise BrokenError("S11", f"{name} is lost")
        if last not in {DONE, CANCELLED, FAILED}:
            raise BrokenError("S12", f"{name} ended as {last}")
        if last == CANCELLED and before.state >= IMPACTING:
            raise BrokenError("S12", f"{name} is cancelled after its start")
        if last == DONE and before.state == IMPACTING:
            works = self.slots[slot].action
            # Deletions do not recover, failures have no call; for others, all
            # their VMs have left.
            if works not in {Action.DELETE, Action.NONE} and before.vms:
                self._all_left(slot, before)

    def _all_left(self, slot: int, before: Op) -> None:
        if before.vms & (before.vms - 1) and self.model.setting.recovery:
            raise BrokenError("S12", f"{self.slots[slot].name} ends in its impact")

    def _begun(self, part: Part) -> None:
        """S10, S11: a call follows Started and its publication, and comes once."""
        for slot, moment in part.log.begun:
            op = moment.ops[slot]
            name = self.slots[slot].name
            if op is None or op.state != IMPACTING:
                raise BrokenError("S10", f"{name} is called before it has started")
            if op.call == MADE:
                raise BrokenError("S11", f"{name} is called twice")
            if moment.unpublished & op.events:
                raise BrokenError("S10", f"{name} is called before it is served")

    def _s8(self, part: Part) -> None:
        """S8: the incarnation rises exactly when the document changes."""
        old, new, log = part.before, part.after, part.log
        for scope in bits(old.listening & new.listening):
            changed = self._shown(old, scope) != self._shown(new, scope)
            changed |= any(
                op is not None and op.events >> scope & 1
                for op in map(new.ops.__getitem__, log.born)
            )
            if changed != bool(log.raised >> scope & 1):
                raise BrokenError("S8", f"scope {scope} changes without its number")

    def _shown(self, state: State, scope: int) -> list[tuple[int, bool, int]]:
        return [
            (slot, op.state in {IMPACTING, RECOVERING}, op.vms & members)
            for members in (self.model.members[scope],)
            for slot, op in enumerate(state.ops)
            if op is not None and op.events >> scope & 1
        ]

    def _s11_durable(self, old: State, new: State) -> None:
        """S11: a crash loses nothing that was committed."""
        same = old.vms == new.vms and old.down == new.down
        same = same and old.requests == new.requests
        for before, after in zip(old.ops, new.ops, strict=True):
            if before is None or after is None:
                same = same and before is after
            else:
                same = same and before == after._replace(call=before.call)
        if not same or old.listening != new.listening:
            raise BrokenError("S11", "a crash loses what was committed")
