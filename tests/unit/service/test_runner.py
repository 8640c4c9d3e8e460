"""The control thread: the order of its work, and errors that end it."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar, cast

import pytest

from forewarn.clock import SystemClock
from forewarn.control.gateway import BusyError
from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes, rollouts, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.port import DriverError
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import SECOND, Micros
from forewarn.protocol.actors import operator
from forewarn.protocol.errors import NotFoundError
from forewarn.protocol.operations import Action, Operation, OperationState
from forewarn.protocol.published import Publication
from forewarn.service import limits
from forewarn.service.components import Outbound
from forewarn.service.gateways import ThreadedOperatorGateway
from forewarn.service.inbox import StoppedError
from forewarn.service.runner import Runner
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import ConflictError, Reader, StoreError, Transaction
from tests.support.loops import in_loop, until

T = TypeVar("T")

FLEET = """
[[host]]
name = "h1"
[[vm]]
name = "web_0"
host = "h1"
"""
OPERATOR = Who(actor=operator("test"))


class Bed:
    """A runner with a plane in memory, which records its output."""

    def __init__(self, policy: Policy) -> None:
        self.said: list[str] = []
        self.publications: list[Publication] = []
        self.failures: list[BaseException] = []
        self.last_seen_times: dict[str, Micros] = {}
        self.store = _Store()
        loop = asyncio.get_running_loop()
        self.runner = Runner(
            plane=Plane(
                store=self.store,
                driver=SimulatedDriver(impacts=dict.fromkeys(Action, SECOND // 100)),
                policy=policy,
                ids=RandomIds(seed=1),
                listener=Outbound(loop, publish=self._publish, changed=self._changed),
            ),
            clock=SystemClock(),
            loop=loop,
            take_last_seen=self._take_last_seen,
            on_failure=self.failures.append,
        )

    def _publish(self, publication: Publication) -> None:
        self.publications.append(publication)
        self.said.append("published")

    def _changed(self, operations: Sequence[str]) -> None:
        self.said.append(f"changed {len(operations)}")

    def _take_last_seen(self) -> Mapping[str, Micros]:
        self.said.append("sightings taken")
        return self.last_seen_times

    async def order(self, decide: Callable[[Work], T]) -> T:
        return await self.runner.call(
            lambda plane, now: plane.order(OPERATOR, decide, now=now)
        )

    async def apply_hosts(self, count: int) -> list[str]:
        """Give the fleet so many hosts, and return their names."""
        names = [f"h{number}" for number in range(1, count + 1)]
        more = "".join(f'[[host]]\nname = "{name}"\n' for name in names[1:])
        fleet = read_fleet(FLEET + more, name="fleet")
        await self.order(lambda work: fleet_changes.apply(work, fleet))
        return names

    def shown(self) -> list[str]:
        """Return the ids of the events that were published last."""
        for publication in reversed(self.publications):
            for view in publication.views:
                return [event.event_id for event in view.events]
        return []


class _Store(MemoryStore):
    """A store that fails on demand."""

    failure: Exception | None = None
    commits = 0

    def transact(self, work: Callable[[Transaction], T]) -> T:
        if self.failure is not None:
            raise self.failure
        self.commits += 1
        return super().transact(work)

    def read(self, work: Callable[[Reader], T]) -> T:
        if self.failure is not None:
            raise self.failure
        return super().read(work)


@contextlib.asynccontextmanager
async def bed(policy: Policy | None = None) -> AsyncGenerator[Bed]:
    setup = Bed(policy or Policy(freeze_notice=0, recovery=SECOND // 100))
    setup.runner.start()
    try:
        await setup.runner.call(lambda plane, now: plane.start(now=now))
        await setup.apply_hosts(1)
        setup.runner.tick()
        yield setup
    finally:
        assert await setup.runner.stop()


@contextlib.asynccontextmanager
async def held_up(made: Bed) -> AsyncGenerator[threading.Event]:
    """Keep the thread busy, so that further tasks wait together."""
    gate, entered = threading.Event(), threading.Event()

    def hold(_plane: Plane, _now: Micros) -> None:
        entered.set()
        gate.wait(60)

    holding = asyncio.create_task(made.runner.call(hold))
    await until(entered.is_set)
    try:
        yield gate
    finally:
        gate.set()
        await holding


def freeze(work: Work) -> None:
    verbs.maintain(work, ["h1"], Action.FREEZE, OrderOptions())


async def announced(made: Bed) -> str:
    """Enable the VM's scope, request a freeze far ahead, and return its event."""
    await made.runner.enable("web_0")
    await made.order(freeze)
    [event_id] = made.shown()
    return event_id


@in_loop
async def test_changes_are_published_before_the_response() -> None:
    async with bed(Policy()) as setup:
        event_id = await announced(setup)
        setup.said.clear()
        assert await setup.runner.approve("web_0", (event_id,)) is None
        assert setup.said[:2] == ["published", "changed 1"]
        [view] = setup.publications[-1].views
        assert view.events[0].status.value == "Started"


@in_loop
async def test_refusal_affects_only_its_caller() -> None:
    async with bed(Policy()) as setup:
        event_id = await announced(setup)
        unknown = "00000000-0000-0000-0000-000000000000"
        async with held_up(setup):
            answers = asyncio.gather(
                setup.runner.approve("web_0", (unknown,)),
                setup.runner.approve("web_0", (event_id,)),
                setup.runner.approve("stranger", (event_id,)),
            )
            await asyncio.sleep(0)
        refused, accepted, stranger = await answers
        assert refused is not None
        assert unknown in refused
        assert accepted is None
        assert stranger is not None


@in_loop
async def test_waiting_posts_share_one_transaction() -> None:
    async with bed(Policy()) as setup:
        event_id = await announced(setup)
        async with held_up(setup):
            answers = asyncio.gather(
                *(setup.runner.approve("web_0", (event_id,)) for _ in range(50))
            )
            await asyncio.sleep(0)
            setup.said.clear()
        assert set(await answers) == {None}
        assert setup.said.count("published") == 1


@in_loop
async def test_waiting_first_requests_are_enabled_together() -> None:
    async with bed() as setup:
        async with held_up(setup):
            results = asyncio.gather(
                setup.runner.enable("web_0"),
                setup.runner.enable("web_0"),
                setup.runner.enable("gone"),
            )
            await asyncio.sleep(0)
            setup.said.clear()
        await results
        assert setup.said.count("published") == 1
        entries = setup.store.read(
            lambda reader: reader.select(kinds.AUDIT_OF_SUBJECT, "vm:web_0")
        )
        assert [
            entry.actor.text for entry in entries if entry.what == "scope enabled"
        ] == ["vm web_0"]


@in_loop
async def test_error_of_a_request_reaches_only_its_caller() -> None:
    async with bed() as setup:
        with pytest.raises(NotFoundError):
            await setup.order(
                lambda work: verbs.maintain(work, ["h9"], Action.FREEZE, OrderOptions())
            )
        await setup.order(freeze)
        assert setup.runner.is_alive()


@in_loop
async def test_timers_and_reports_run_without_requests() -> None:
    async with bed() as setup:
        await setup.runner.enable("web_0")
        await setup.order(freeze)
        await until(
            lambda: "Done" in {operation.state.value for operation in _all(setup)}
        )
        # VMs see it after it is stored.
        await until(lambda: not setup.shown())


def _all(made: Bed) -> list[Operation]:
    return made.store.read(lambda reader: reader.select(kinds.ALL_OPERATIONS))


@in_loop
async def test_full_inbox_refuses_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 2)
    async with bed() as made, held_up(made):
        waiting = [asyncio.create_task(made.runner.enable("web_0")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await made.runner.approve("web_0", ())
        with pytest.raises(BusyError):
            await made.order(freeze)
        for task in waiting:
            task.cancel()


@in_loop
async def test_stop_finishes_waiting_tasks_and_accepts_no_new_ones() -> None:
    async with bed() as setup:
        async with held_up(setup):
            last = asyncio.create_task(setup.order(freeze))
            await asyncio.sleep(0)
            stopping = asyncio.create_task(setup.runner.stop())
            await asyncio.sleep(0)
            with pytest.raises(StoppedError):
                await setup.order(freeze)
        await last
        assert await stopping
        assert len(_all(setup)) == 1


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (
            StoreError("disk full", hint="Free some space."),
            "disk full. Free some space.",
        ),
        (StoreError("disk full"), "disk full"),
        (DriverError("no records"), "no records"),
        (ValueError("a bug"), ""),
    ],
)
@in_loop
async def test_failure_ends_the_thread_and_all_waiting_tasks(
    failure: Exception, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with bed() as setup:
        async with held_up(setup):
            waiting = [
                asyncio.create_task(setup.order(freeze)),
                asyncio.ensure_future(setup.runner.approve("web_0", ("x",))),
                asyncio.create_task(setup.runner.enable("web_0")),
            ]
            await asyncio.sleep(0)
            setup.store.failure = failure
        for task in waiting:
            with pytest.raises(StoppedError):
                await task
        await until(lambda: not setup.runner.is_alive())
        assert setup.failures == [failure]
        with pytest.raises(StoppedError):
            await setup.order(freeze)
        [logged] = [line for line in caplog.records if line.levelname == "CRITICAL"]
        ended = "the control thread ended"
        assert logged.getMessage() == (f"{ended}: {said}" if said else ended)
        # Only bugs need a traceback.
        assert (logged.exc_info is None) == bool(said)


@in_loop
async def test_timer_failure_ends_the_thread() -> None:
    async with bed() as setup:
        setup.store.failure = StoreError("disk full")
        setup.runner.wake()
        await until(lambda: setup.failures != [])
        assert isinstance(setup.runner.failure, StoreError)


@in_loop
async def test_locked_store_only_delays_tasks() -> None:
    async with bed(Policy()) as setup:
        event_id = await announced(setup)
        setup.store.failure = ConflictError("another writer")
        for ask in (
            setup.order(freeze),
            setup.runner.approve("web_0", (event_id,)),
            setup.runner.enable("web_0"),
        ):
            with pytest.raises(BusyError):
                await ask
        setup.runner.wake()
        setup.store.failure = None
        assert await setup.runner.approve("web_0", (event_id,)) is None


@in_loop
async def test_current_last_seen_times_are_used_before_disabling() -> None:
    async with bed(Policy(disable_after=SECOND)) as setup:
        await setup.runner.enable("web_0")
        [view] = setup.publications[-1].views
        clock = SystemClock()

        def is_here_until_it_was_looked_for() -> bool:
            setup.last_seen_times = {view.view_id: clock.now()}
            return "sightings taken" in setup.said

        await until(is_here_until_it_was_looked_for)
        assert all(v.enabled for p in setup.publications[-1:] for v in p.views)
        setup.last_seen_times = {}
        await until(lambda: any(not v.enabled for v in setup.publications[-1].views))


@in_loop
async def test_iteration_is_measured_at_its_end() -> None:
    async with bed() as setup:
        counts = setup.runner.turn_seconds.counts
        async with held_up(setup) as gate:
            before = sum(counts)
            gate.set()
        await until(lambda: sum(counts) > before)


@in_loop
async def test_short_iterations_skip_no_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "TURN_SECONDS", 0)
    async with bed() as setup:
        event_id = await announced(setup)
        async with held_up(setup) as gate:
            waiting = [
                asyncio.ensure_future(task)
                for task in (
                    setup.runner.enable("web_0"),
                    setup.runner.call(lambda _plane, now: now),
                    setup.runner.approve("web_0", (event_id,)),
                    setup.runner.call(lambda _plane, now: now),
                )
            ]
            await asyncio.sleep(0)
            gate.set()
        await asyncio.gather(*waiting)
        await until(lambda: _all(setup)[0].state is OperationState.DONE)


class _SetClock(SystemClock):
    """A monotonic clock that a test sets."""

    seconds = 1_000.0

    def monotonic(self) -> float:
        return self.seconds


@in_loop
async def test_timers_get_as_much_time_as_the_requests_before_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else what requests order is never done while others keep coming."""
    made, clock = Bed(Policy()), _SetClock()
    runner, left = made.runner, list[bool]()
    monkeypatch.setattr(runner, "_clock", clock)
    monkeypatch.setattr(runner, "_is_ticking", True)

    def take_time(seconds: float) -> None:
        clock.seconds += seconds

    def look(_plane: Plane, *, now: Micros) -> bool:
        del now
        for _ in range(3):
            left.append(not runner._is_turn_over())
            take_time(limits.SHARED_TURN_SECONDS)
        return False

    monkeypatch.setattr(Plane, "advance", look)
    for spent in (0.0, 2 * limits.SHARED_TURN_SECONDS):
        calls = [
            asyncio.ensure_future(runner.call(lambda *_, s=spent: take_time(s)))
            for _ in range(2)  # one of them waits
        ]
        await asyncio.sleep(0)
        runner.wake()
        runner._beat = clock.seconds
        runner._turn()
        runner._order()
        await asyncio.gather(*calls)
    assert left == [True, False, False, True, True, False]


@in_loop
async def test_waiting_task_runs_after_the_next_step_of_a_rollout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An iteration is shorter if a task waits."""
    monkeypatch.setattr(limits, "SHARED_TURN_SECONDS", 0)
    monkeypatch.setattr(limits, "TURN_SECONDS", 60)
    async with bed() as setup:
        names = await setup.apply_hosts(40)
        wishes = OrderOptions(at_once=len(names))
        async with held_up(setup) as gate:
            ordered = asyncio.ensure_future(
                setup.order(
                    lambda work: verbs.maintain(work, names, Action.FREEZE, wishes)
                )
            )
            counting = [
                asyncio.ensure_future(setup.runner.call(lambda *_: setup.store.commits))
                for _ in range(3)
            ]
            await asyncio.sleep(0)
            gate.set()
        await ordered
        commits = await asyncio.gather(*counting)
        assert max(after - before for before, after in pairwise(commits)) <= 1
        await until(
            lambda: {work.state for work in _all(setup)} == {OperationState.DONE}
        )


@in_loop
async def test_request_returns_when_its_list_of_hosts_is_complete(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollouts, "PAGE", 1)
    monkeypatch.setattr(limits, "TURN_SECONDS", 0)
    async with bed(Policy()) as setup:
        names = await setup.apply_hosts(5)
        nobody = cast("Any", None)
        gateway = ThreadedOperatorGateway(
            runner=setup.runner,
            readings=nobody,
            fleets=nobody,
            campaigns=nobody,
            watchers=nobody,
            clock=SystemClock(),
            ask_health=nobody,
        )
        await gateway.order(
            OPERATOR,
            lambda work: verbs.maintain(work, names, Action.FREEZE, OrderOptions()),
        )
        assert [operation.host for operation in _all(setup)] == names
