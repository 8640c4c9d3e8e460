"""Random lives of an agent: documents, faults, restarts, and what must always hold.

The world is a list of events that begin, start and go as they please; what the agent
reads of it may be empty, missing, old or cut short, the metadata server may begin to
count again and list nothing for a while, and an event may continue under another ID.
Handlers end as they please, approvals get lost, NotBefore is moved, and the agent is
killed at any moment and started again, perhaps with rules that were edited meanwhile.
`Life` looks after
every decision that deciding again is idle, that the next one is in the future, and
that no handler runs twice at once.
"""

from collections import Counter
from dataclasses import replace

import hypothesis
import pytest
from hypothesis import strategies as st

from forewarn.agent.core import budget, presence, steps
from forewarn.agent.core.model import (
    Consent,
    Decision,
    Input,
    NoteKind,
    Phase,
    Presence,
    Run,
    Stage,
    StepState,
    Task,
)
from forewarn.agent.core.policy import (
    Approve,
    Approver,
    GoneAfter,
    Handler,
    Policy,
    Rule,
)
from forewarn.agent.core.preparing import LATE_GRACE, LOST_MAX
from forewarn.agent.core.rules import UNSAFE_UNPREPARED
from forewarn.instants import MINUTE, SECOND
from forewarn.protocol.notices import Notice
from tests.unit.agent.core.support import AT_ONCE, Life, notice, started

HANDLERS = (
    Handler(name="drain", timeout=20 * SECOND, retries=1),
    Handler(name="flush", timeout=5 * SECOND, required=False, priority=3),
    Handler(name="leave", timeout=60 * SECOND, always=True),
    Handler(name="tell", timeout=SECOND, required=False, recovers=False),
)
RESOURCES = (("vm1",), ("vm1",), ("vm1", "vm2"), ("vm2", "vm1"), ("vm10",))
IDS = ("E1", "E2", "E3")
WHAT = (
    *("poll", "poll", "poll", "change", "change", "end", "end"),
    *("answer", "sleep", "restart", "edit", "peer", "lie"),
    *("empty", "silence", "reset", "rename"),
)

a_rule = st.builds(
    Rule,
    name=st.just("rule"),
    types=st.sampled_from([frozenset[str]()] * 3 + [frozenset({"Freeze", "Preempt"})]),
    groups=st.lists(
        st.lists(
            st.sampled_from([handler.name for handler in HANDLERS]),
            min_size=1,
            max_size=2,
            unique=True,
        ).map(tuple),
        max_size=3,
    ).map(tuple),
    start_before=st.none() | st.sampled_from([30 * SECOND, 5 * MINUTE]),
    starts=st.just(()) | st.just(((HANDLERS[0].name, 5 * MINUTE),)),
    approve=st.sampled_from([*Approve, Approve.PREPARED, Approve.PREPARED]),
    approver=st.sampled_from(Approver),
    takeover=st.just(10 * SECOND),
)
some_rules = st.lists(a_rule, min_size=1, max_size=3).map(
    lambda rules: tuple(
        # As the settings call those without a name of their own.
        replace(rule, name=f"rule {number}")
        for number, rule in enumerate(rules, start=1)
    )
)
a_policy = st.builds(
    Policy,
    handlers=st.just(HANDLERS),
    rules=some_rules,
    has_peers=st.booleans(),
    gone_after=st.sampled_from(
        [
            AT_ONCE,
            GoneAfter(
                scheduled=2 * SECOND,
                started=7 * SECOND,
                empty=20 * SECOND,
                reset=60 * SECOND,
            ),
            GoneAfter(),
        ]
    ),
)


class Agent(Life):
    """A life in which every run and every approval is judged as it is commanded."""

    hears_of_others = False
    """A rule has handlers for events of other VMs."""
    is_edited = False
    """The rules are not those of the beginning."""
    shown: frozenset[str] = frozenset()
    """Events that a document has shown since the agent began."""

    def __init__(self, settings: Policy) -> None:
        super().__init__(settings, is_patient=True)
        self.listed: dict[str, int] = {}
        """For each event, the time since the agent's start at which a document last
        listed it."""

    def poll(self, *notices: Notice, times: int = 1) -> Decision:
        """Read a document."""
        self.shown |= {each.event_id for each in notices}
        for event in notices:
            if "vm1" in event.resources or event.resources == ("vm10",):
                self.listed[event.event_id] = self.heard
        return super().poll(*notices, times=times)

    def give(self, *inputs: Input) -> Decision:
        """Decide, and judge what is believed to have gone."""
        live = {task.event_id: task for task in self.memory.tasks if task.is_live}
        decision = super().give(*inputs)
        for task in decision.memory.tasks:
            before = live.get(task.event_id)
            if before is not None and not task.is_live:
                self._judge_gone(before)
        return decision

    def _judge_gone(self, before: Task) -> None:
        """It was named by no answer for as long as the settings want."""
        wanted = self.policy.gone_after.scheduled
        if before.started:
            wanted = max(wanted, self.policy.gone_after.started)
        # One that began under another agent was listed before this one listened.
        last = self.listed.get(before.event_id, 0)
        assert self.heard - last >= wanted, "believed to have gone too early"

    def restart(self, settings: Policy | None = None) -> Decision:
        """Restart the agent."""
        self.shown = frozenset()
        self.listed = {}
        self.is_edited = self.is_edited or settings is not None
        return super().restart(settings)

    def _carry_out(self, command: object) -> None:
        if isinstance(command, Run) and not command.resumes:
            self._judge_run(command)
        super()._carry_out(command)  # pyright: ignore[reportArgumentType]

    def _judge_run(self, run: Run) -> None:
        task = run.task
        if task is None:
            assert run.phase is Phase.RECOVER
            return
        is_own = "vm1" in task.notice.resources
        assert is_own or self.hears_of_others, "acts on another's event"
        prepared = [
            step
            for step in task.steps
            if step.handler == run.handler and step.phase is Phase.PREPARE
        ]
        if run.phase is Phase.RECOVER:
            assert prepared, "recovers without a preparation"
            self._judge_recovery(run)
            return
        assert task.event_id in self.shown, "prepares from memory"
        assert run.kill_at <= run.stop_at + max(
            self.policy.stop_grace, run.kill_at - self.now
        )
        not_before = task.notice.not_before
        known = task.begun
        if (
            not_before is not None
            and not task.notice.has_started
            and not_before - known > 2 * self.policy.margin
        ):
            assert run.kill_at <= not_before - self.policy.margin

    def _judge_recovery(self, run: Run) -> None:
        """A handler is not undone while an event keeps it prepared, nor during an event
        of this VM."""
        for task in self.memory.tasks:
            if task.stage in {Stage.PREPARING, Stage.PREPARED, Stage.WITHHELD}:
                held = {
                    step.handler for step in task.steps if step.phase is Phase.PREPARE
                }
                assert run.handler not in held, "undoes what stands prepared"
                assert not (task.mine and held), "recovers under an event"

    def judge(self) -> None:
        """Look at what is remembered."""
        for task in self.memory.tasks:
            runs = Counter(
                (step.round, step.handler)
                for step in task.steps
                if step.phase is Phase.PREPARE and step.state is StepState.DONE
            )
            assert all(count == 1 for count in runs.values()), "prepared twice"
            assert len(task.steps) <= 4 * len(HANDLERS) * (LOST_MAX + 3)
            if task.notice.resources == ("vm10",):
                assert task.consent is Consent.NONE
                assert self.hears_of_others or task.steps == ()
            if task.stage is Stage.PREPARING and task.event_id in self.shown:
                until = budget.ready_by(task, self.policy)
                assert until is None or all(
                    step.kill_at <= max(until, self.now + LATE_GRACE)
                    for step in task.steps
                    if (step.phase, step.state) == (Phase.PREPARE, StepState.RUNNING)
                ), "runs on after its deadline"
            is_gone = task.presence in {Presence.GONE, Presence.RETURNING}
            assert is_gone is not task.is_live
            assert (task.presence in presence.ABSENT) is bool(task.absent_at)
            if task.stage is Stage.FINISHED:
                owed = set(steps.unrecovered(task)) - {"tell"}
                assert not owed, "left owed"

    def judge_sent(self, before: list[str]) -> None:
        """Look at the approvals that were commanded since."""
        for event_id in self.sent[len(before) :]:
            task = self.task(event_id)
            assert event_id in self.shown, "approves from memory"
            # It may have gone and come back with more time before it is sent again.
            assert task.stage is Stage.PREPARED or task.tries > 1
            if not self.is_edited:
                names = {rule.name: rule for rule in self.policy.rules}
                assert names[task.rule].approve is not Approve.NEVER
            done = {
                step.handler
                for step in task.steps
                if step.phase is Phase.PREPARE
                and step.state is StepState.DONE
                and step.round == task.round
            }
            wanted = {
                name
                for note in self.notes
                if (note.kind, note.event_id, note.at)
                == (NoteKind.PREPARING, event_id, task.begun)
                for name in note.detail.partition(": ")[2].split(", ")
            }
            required = {handler.name for handler in HANDLERS if handler.required}
            assert wanted & required <= done, "approved unprepared"
            assert done or task.notice.event_type not in UNSAFE_UNPREPARED


class World:
    """The events as they are, and what was last read of them."""

    def __init__(self, data: st.DataObject) -> None:
        self.data = data
        self.events: dict[str, Notice] = {}
        self.incarnation = 1
        self.before: tuple[int, tuple[Notice, ...]] = (1, ())
        self.past: set[str] = set()
        self.hidden = 0
        """Documents that list nothing, since the metadata server has just begun."""

    def change(self, now: int) -> None:
        """Let an event come, start or go."""
        self.incarnation += 1
        known = sorted({*IDS, *self.events})
        event_id = self.data.draw(st.sampled_from(known), "event")
        if event_id not in self.events:
            if event_id not in self.past:
                self.past.add(event_id)
                self.events[event_id] = self._event(event_id, now)
            return
        event = self.events[event_id]
        how = self.data.draw(st.sampled_from(["start", "go", "move"]), "how")
        if event.has_started or how == "go":
            del self.events[event_id]
        elif how == "start":
            self.events[event_id] = started(event)
        else:
            self.events[event_id] = replace(event, not_before=self._ahead(now))

    def _event(self, event_id: str, now: int) -> Notice:
        value = notice(
            event_id,
            event_type=self.data.draw(st.sampled_from(["Reboot", "Preempt", "Freeze"])),
            resources=self.data.draw(st.sampled_from(RESOURCES)),
            not_before=self._ahead(now),
        )
        return (
            started(value)
            if self.data.draw(st.sampled_from([False, False, False, True]))
            else value
        )

    def _ahead(self, now: int) -> int:
        ahead = self.data.draw(
            st.sampled_from([-5, 1, 8, 30, 30, 300, 900, 900]), "notice"
        )
        return now + ahead * SECOND

    def reset(self) -> None:
        """Restart the metadata server: it counts from 1 and lists no events yet."""
        self.incarnation = 1
        self.hidden = self.data.draw(st.integers(0, 4), "hidden")

    def rename(self) -> None:
        """Continue an event under a new ID."""
        if self.events:
            event_id = self.data.draw(st.sampled_from(sorted(self.events)), "event")
            self.incarnation += 1
            event = self.events.pop(event_id)
            other = f"{event_id}x"
            self.events[other] = replace(event, event_id=other)

    def read(self, life: Agent) -> None:
        """Have the agent read a document: true, old, or cut short."""
        life.incarnation, notices = self._document()
        life.poll(*notices)

    def _document(self) -> tuple[int, tuple[Notice, ...]]:
        true = tuple(self.events.values())
        if self.hidden:
            self.hidden -= 1
            return self.incarnation, ()
        fault = self.data.draw(
            st.sampled_from(["none", "none", "none", "stale", "short", "back"]), "fault"
        )
        if fault == "stale":
            return self.before
        if fault == "short":
            return self.incarnation, true[:-1]
        if fault == "back":
            return self.incarnation, tuple(
                replace(event, status="Scheduled", not_before=None) for event in true
            )
        self.before = self.incarnation, true
        return self.before


@pytest.mark.clause("8.3", "8.5", "8.8")
@hypothesis.given(st.data(), a_policy)
def test_agent_invariants_hold_in_random_lives(
    data: st.DataObject, settings: Policy
) -> None:
    live_to_the_end(data, Agent(settings))


@pytest.mark.clause("8.3", "8.7")
@hypothesis.given(st.data(), a_policy, a_rule)
def test_agent_invariants_hold_with_events_of_other_vms(
    data: st.DataObject, settings: Policy, rule: Rule
) -> None:
    theirs = replace(rule, name="theirs", mine=False)
    life = Agent(replace(settings, rules=(theirs, *settings.rules)))
    life.hears_of_others = True
    live_to_the_end(data, life)


def live_to_the_end(data: st.DataObject, life: Agent) -> None:
    """Live through what may happen, and see that nothing is owed in the end."""
    world = World(data)
    for _ in range(data.draw(st.integers(5, 60), "length")):
        before = list(life.sent)
        live_one(data, life, world)
        life.judge()
        life.judge_sent(before)
    # All goes in the end, and the agent runs on.
    life.incarnation = world.incarnation + 1
    for _ in range(12):
        life.poll()
        life.sleep(MINUTE)
    life.poll()
    for _ in range(200):
        if not life.running and not life.wake:
            break
        for run in list(life.running.values()):
            life.end(run.handler)
        life.sleep(MINUTE)
    life.judge()
    for task in life.memory.tasks:
        assert task.stage is Stage.FINISHED, "left owed"


def live_one(data: st.DataObject, life: Agent, world: World) -> None:
    """Do one thing to the agent."""
    kind = data.draw(
        st.sampled_from(WHAT),
        "what",
    )
    match kind:
        case "poll":
            world.read(life)
        case "change":
            world.change(life.now)
            world.read(life)
        case "empty" | "silence" | "reset" | "rename":
            disturb(kind, data, life, world)
        case "end":
            end_one(data, life)
        case "answer":
            wanted = [
                task.event_id
                for task in life.memory.tasks
                if task.consent is Consent.WANTED
            ]
            if wanted:
                consent = data.draw(
                    st.sampled_from([Consent.GIVEN, Consent.WANTED, Consent.REFUSED])
                )
                found_at = life.memory.find(wanted[0])
                sent = Counter(life.sent)
                life.answer(consent, wanted[0])
                assert found_at is not None
                assert Counter(life.sent)[wanted[0]] == sent[wanted[0]]
        case "sleep":
            life.sleep(data.draw(st.sampled_from([0, 1, 7, 60, 900])) * SECOND)
        case "restart":
            restart(data, life)
        case "edit":
            restart(data, life, replace(life.policy, rules=data.draw(some_rules)))
        case "peer":
            event_id = data.draw(st.sampled_from(IDS))
            life.hear("vm2", is_prepared=data.draw(st.booleans()), event_id=event_id)
        case _:
            life.answer(Consent.GIVEN, "E9")
            life.order("E9")


def disturb(what: str, data: st.DataObject, life: Agent, world: World) -> None:
    """Have the endpoint do what it should not."""
    match what:
        case "empty":
            life.poll_empty()
        case "silence":
            life.be_silent(data.draw(st.sampled_from([1, 30, 900])) * SECOND)
        case "reset":
            world.reset()
        case _:
            world.rename()
            world.read(life)


def end_one(data: st.DataObject, life: Agent) -> None:
    """Let a run end as it may."""
    if life.running:
        run = data.draw(st.sampled_from(list(life.running.values())), "run")
        states = [StepState.DONE, StepState.FAILED, StepState.LOST]
        if any(stop.run_id == run.run_id for stop in life.stops):
            states.append(StepState.STOPPED)
        life.end(run.handler, data.draw(st.sampled_from(states)))


def restart(data: st.DataObject, life: Agent, settings: Policy | None = None) -> None:
    """Kill the agent; what ran is adopted or lost."""
    before = set(life.running)
    life.restart(settings)
    assert set(life.running) == before
    for run in list(life.running.values()):
        if data.draw(st.booleans(), "lost"):
            life.end(run.handler, StepState.LOST)
    life.give()
