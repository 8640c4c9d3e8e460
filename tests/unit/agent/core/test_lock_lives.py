"""Random lives of several agents with one lock: never more of them at once than it has.

The server is a model that counts. It may be away, keep an answer to itself, or carry a
request out late. Agents may end after any decision, before or after their requests were
made. What is true of the lock is read from the server, never from an agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.agent.core import decide
from forewarn.agent.core.locking import LATE_FOR
from forewarn.agent.core.model import (
    ApprovalResult,
    Command,
    Consent,
    Finished,
    Input,
    Memory,
    Polled,
    Run,
    Send,
    Stage,
    StepState,
)
from forewarn.agent.core.permits import (
    LockAnswer,
    LockResponse,
    LockState,
    ReleaseLock,
    TakeLock,
)
from forewarn.agent.core.policy import Handler, LockTerms, Policy, Rule
from forewarn.instants import MINUTE, SECOND, Micros
from forewarn.protocol.notices import STARTED, Notice
from tests.unit.agent.core.support import AT_ONCE, START, notice

DRAIN = Handler(name="drain")
RULES = (Rule(name="rule 1", groups=(("drain",),)),)

NOTICE: Micros = 2 * MINUTE
LIFE: Micros = 12 * MINUTE
"""Until then events come; then all are to end."""
REST: Micros = 20 * MINUTE
"""Within which everything has ended, and the lock is given back."""


@dataclass
class Server:
    """A lock with so many slots, which may misbehave until `well_from`."""

    slots: int
    random: Random
    well_from: Micros
    holders: dict[str, Micros] = field(default_factory=dict[str, Micros])
    """When each took it, by its ID."""

    def __post_init__(self) -> None:
        self.late: list[tuple[Micros, TakeLock | ReleaseLock]] = []

    def ask(
        self, asked: TakeLock | ReleaseLock, now: Micros
    ) -> tuple[Micros, LockResponse] | None:
        """Carry a request out; return when its answer comes, None: it is lost."""
        fate = self.random.random() if now < self.well_from else 1.0
        took = self.random.randrange(5) * SECOND // 2
        if fate < 0.1:
            return now + took, self._said(asked, LockAnswer.TROUBLE)
        if fate < 0.2:
            self._do(asked, now)
            return now + took, self._said(asked, LockAnswer.TROUBLE)
        if fate < 0.3:
            gives_up = now + took
            at = gives_up + self.random.randrange(LATE_FOR)
            self.late.append((at, asked))
            return gives_up, self._said(asked, LockAnswer.TROUBLE)
        if fate < 0.35:
            # The answer never comes, and nothing was done.
            return None
        if fate < 0.4:
            # It comes after the agent stopped waiting for it.
            return now + 90 * SECOND, self._said(asked, self._do(asked, now))
        return now + took, self._said(asked, self._do(asked, now))

    def pass_time(self, now: Micros) -> None:
        """Carry out what comes late."""
        due = [waiting for waiting in self.late if waiting[0] <= now]
        self.late = [waiting for waiting in self.late if waiting[0] > now]
        for _, asked in sorted(due, key=lambda waiting: waiting[0]):
            self._do(asked, now)

    def _do(self, asked: TakeLock | ReleaseLock, now: Micros) -> LockAnswer:
        if isinstance(asked, ReleaseLock):
            self.holders.pop(asked.holder, None)
            return LockAnswer.RELEASED
        if asked.holder not in self.holders and len(self.holders) >= self.slots:
            return LockAnswer.REFUSED
        self.holders.setdefault(asked.holder, now)
        return LockAnswer.TAKEN

    def _said(self, asked: TakeLock | ReleaseLock, answer: LockAnswer) -> LockResponse:
        return LockResponse(number=asked.number, answer=answer, detail="a detail")


class Resident:
    """An agent with its VM: what is durable, what is under way, and its events."""

    def __init__(self, name: str, policy: Policy, random: Random) -> None:
        self.name = name
        self.policy = policy
        self.random = random
        self.memory = Memory(lost_journal=True)
        """The content of its journal."""
        self.is_up = False
        self.waiting: list[tuple[Micros, Input]] = []
        """Its inputs and the times at which they arrive; lost when it ends."""
        self.notices: dict[str, Notice] = {}
        self.ends: dict[str, Micros] = {}
        """When each event that has started is over."""
        self.approved: set[str] = set()
        self.without: set[str] = set()
        """Events that it has decided to approve without the lock."""
        self.count = 0
        self.wake: Micros | None = None
        self.polled: tuple[Notice, ...] = ()
        self.polls_left = 3

    @property
    def terms(self) -> LockTerms:
        assert self.policy.lock is not None
        return self.policy.lock

    def announce(self, now: Micros) -> None:
        self.count += 1
        event = notice(
            f"{self.name}-{self.count}",
            resources=(self.name,),
            not_before=now + NOTICE,
        )
        self.notices[event.event_id] = event

    def go_on(self, now: Micros) -> None:
        """Have events start, and end."""
        for event_id, event in list(self.notices.items()):
            due = event.not_before is not None and event.not_before <= now
            if not event.has_started and (due or event_id in self.approved):
                self.notices[event_id] = replace(event, status=STARTED, not_before=None)
                self.ends[event_id] = now + self.random.randrange(5, 90) * SECOND
            elif event.has_started and self.ends[event_id] <= now:
                del self.notices[event_id]

    def cancel_one(self) -> None:
        for event_id, event in list(self.notices.items()):
            if not event.has_started and event_id not in self.approved:
                del self.notices[event_id]
                return

    def turn(self, server: Server, now: Micros, *, may_die: bool) -> Iterator[str]:
        """Make one decision; yield the events that it approves."""
        if not self.is_up:
            decision = decide.resume(self.memory, now)
            self.is_up = True
        else:
            inputs = [effect for at, effect in self.waiting if at <= now]
            self.waiting = [effect for effect in self.waiting if effect[0] > now]
            inputs += self._polled(now)
            is_due = self.wake is not None and self.wake <= now
            if not inputs and not is_due:
                return
            decision = decide.decide(self.policy, self.memory, inputs, now)
        dies = self.random.random() if may_die else 1.0
        if dies < 0.01:
            self._die()
            return
        self.memory, self.wake = decision.memory, decision.wake
        self.without |= {
            note.event_id
            for note in decision.notes
            if note.detail.startswith("not available in time")
        }
        if dies < 0.02:
            self._die()
            return
        for command in decision.commands:
            yield from self._carry_out(command, server, now)
        if dies < 0.03:
            self._die()

    def _polled(self, now: Micros) -> Iterator[Polled]:
        """Yield a document, where it says something that was not said often enough."""
        shown = tuple(self.notices.values())
        if shown != self.polled:
            self.polled, self.polls_left = shown, 3
        if self.polls_left and self.random.random() < 0.8:
            self.polls_left -= 1
            yield Polled(notices=shown, name=self.name, heard=now - START)

    def _carry_out(
        self, command: Command, server: Server, now: Micros
    ) -> Iterator[str]:
        soon = now + self.random.randrange(4) * SECOND
        if isinstance(command, Run):
            state = StepState.LOST if command.resumes else StepState.DONE
            finished = Finished(run_id=command.run_id, state=state)
            self.waiting.append((soon, finished))
        elif isinstance(command, Send):
            if command.event_id in self.notices:
                self.approved.add(command.event_id)
                yield command.event_id
            answer = ApprovalResult(event_id=command.event_id, consent=Consent.GIVEN)
            self.waiting.append((soon, answer))
        elif isinstance(command, (TakeLock, ReleaseLock)):
            answered = server.ask(command, now)
            if answered is not None:
                self.waiting.append(answered)

    def _die(self) -> None:
        self.is_up = False
        self.waiting.clear()
        self.polls_left = 3

    def is_over(self) -> bool:
        return (
            not self.notices
            and all(task.stage is Stage.FINISHED for task in self.memory.tasks)
            and self.memory.lock.state is LockState.FREE
        )


class World:
    """Agents and their lock, until all is over."""

    def __init__(self, seed: int, *, slots: int, agents: int, withholds: bool) -> None:
        self.random = Random(seed)
        self.now = START
        self.server = Server(slots, self.random, well_from=START + LIFE)
        terms = LockTerms(
            label="lock web",
            withholds=withholds,
            pause=self.random.choice((0, 10 * SECOND, MINUTE)),
            timeout=10 * SECOND,
        )
        policy = Policy(handlers=(DRAIN,), rules=RULES, lock=terms, gone_after=AT_ONCE)
        self.agents = [
            Resident(f"vm{number}", policy, self.random) for number in range(agents)
        ]
        self.approvals = 0
        self.late_approvals = 0

    def live(self) -> None:
        while self.now < START + LIFE:
            self._second(may_die=True)
            if self.random.random() < 0.03:
                self.random.choice(self.agents).announce(self.now)
            if self.random.random() < 0.003:
                self.random.choice(self.agents).cancel_one()
        for _ in range(REST // SECOND):
            self._second(may_die=False)
            if all(agent.is_over() for agent in self.agents):
                break
        for agent in self.agents:
            assert agent.is_over(), (agent.name, agent.memory)
        assert self.server.holders == {}

    def _second(self, *, may_die: bool) -> None:
        self.now += SECOND
        self.server.pass_time(self.now)
        for agent in self.agents:
            agent.go_on(self.now)
            for event_id in agent.turn(self.server, self.now, may_die=may_die):
                self._approved(agent, event_id)
        self._judge()

    def _approved(self, agent: Resident, event_id: str) -> None:
        self.approvals += 1
        not_before = agent.notices[event_id].not_before
        is_late = not_before is not None and self.now >= not_before - agent.terms.margin
        if event_id in agent.without:
            assert is_late
            assert not agent.terms.withholds
            self.late_approvals += 1

    def _judge(self) -> None:
        assert len(self.server.holders) <= self.server.slots
        for agent in self.agents:
            for task in agent.memory.tasks:
                is_bound = task.event_id in agent.approved - agent.without
                if is_bound and task.stage is not Stage.FINISHED:
                    assert agent.name in self.server.holders, (agent.name, task)


seeds = st.integers(min_value=0, max_value=2**32 - 1)


@pytest.mark.amounts
@pytest.mark.parametrize("withholds", [False, True])
@settings(max_examples=max(16, settings().max_examples // 4), deadline=None)
@given(seed=seeds, slots=st.integers(1, 3), agents=st.integers(1, 5))
def test_agents_share_a_lock_in_random_histories(
    withholds: bool, seed: int, slots: int, agents: int
) -> None:
    World(seed, slots=slots, agents=agents, withholds=withholds).live()


def test_random_lives_cover_normal_and_late_approvals() -> None:
    """Else the test above would prove nothing."""
    approvals = late = 0
    for seed in range(10):
        world = World(seed, slots=1, agents=4, withholds=False)
        world.live()
        approvals += world.approvals
        late += world.late_approvals
    assert approvals > 100
    assert 0 < late < approvals / 2
