"""What is due at the same time is done in the order of the requests, whatever the ids."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.control.requests import again, failures, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions import batch
from forewarn.control.transactions.work import Work
from forewarn.drivers.port import Call
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR, MINUTE
from forewarn.protocol.operations import Action, Operation, Verb
from forewarn.sim import engine
from forewarn.sim.scenario.builtin import find
from forewarn.sim.scenario.run import Runner
from forewarn.sim.scenario.setup import setup_for, virtual_stage
from forewarn.sim.scenario.time import VirtualTime
from forewarn.sim.virtual_client import VirtualClient
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store, every
from forewarn.store.sqlite import SqliteStore
from tests.support.profiles import amounts
from tests.support.rollouts import name_of
from tests.support.worlds import CrashError, World

HOSTS = 12

ORDERS = st.permutations(range(HOSTS))
SEEDS = st.integers(0, 2**32)


class Called(SimulatedDriver):
    """Remembers whom it was called for."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts: list[str] = []

    def begin(self, call: Call, *, now: int) -> None:
        super().begin(call, now=now)
        if call.host not in self.hosts:
            self.hosts.append(call.host)


def fleet(hosts: int, *, is_shared: bool) -> str:
    """Return a fleet with a VM on each host: all of one set, or each of its own."""
    lines = ['[[tenant]]\nname = "shop"']
    if is_shared:
        lines.append('[[scope]]\nname = "s"\ntenant = "shop"\nkind = "scale-set"')
    for number in range(hosts):
        scope = f'scope = "s"\nfault_domain = {number % 5}'
        if not is_shared:
            scope = 'tenant = "shop"'
        lines.append(
            f'[[host]]\nname = "{name_of(number)}"\n'
            f'[[vm]]\nname = "v-{number}"\nhost = "{name_of(number)}"\n'
            f"{scope}"
        )
    return "\n".join(lines)


def maintain(world: World, number: int, *, at: int = 0) -> None:
    wishes = OrderOptions(not_before=at or None)
    world.order(
        lambda work: verbs.maintain(work, [name_of(number)], Action.FREEZE, wishes)
    )


def upgrade(world: World, number: int) -> None:
    """Upgrade a VM: nobody is told of it, and it waits for the guard."""
    names = [f"v-{number}"]
    world.order(
        lambda work: verbs.change_vms(work, names, Verb.UPGRADE_OS, OrderOptions())
    )


@pytest.mark.amounts
@settings(max_examples=amounts().order_examples)
@given(ORDERS, SEEDS)
def test_operations_due_together_start_in_request_order(
    numbers: list[int], seed: int
) -> None:
    driver = Called()
    world = World(
        store=MemoryStore,
        driver=driver,
        fleet=fleet(HOSTS, is_shared=False),
        seed=seed,
    )
    for number in numbers:
        maintain(world, number)
    world.advance("15m")
    assert driver.hosts == [name_of(number) for number in numbers]
    # Their ends are due together as well, and so is the end of their recovery.
    world.advance("1h")
    ended = world.read(lambda reader: reader.select(kinds.ALL_AUDIT, limit=1000))
    done = [entry.operation for entry in ended if entry.kind.value == "operation done"]
    assert len(done) == HOSTS
    assert done == sorted(done)


@pytest.mark.amounts
@settings(max_examples=amounts().order_examples)
@given(ORDERS, SEEDS)
def test_operations_held_by_the_guard_start_in_request_order(
    numbers: list[int], seed: int
) -> None:
    """All are of one scale set: what is held starts when the one before has ended."""
    driver = Called()
    world = World(
        store=MemoryStore,
        driver=driver,
        fleet=fleet(HOSTS, is_shared=True),
        seed=seed,
    )
    world.order(lambda work: failures.fail_vm(work, "v-0"))
    for number in numbers:
        if number % 5 != 0:
            upgrade(world, number)
    world.settle()
    assert driver.hosts == []
    world.order(lambda work: failures.restore_vm(work, "v-0"))
    world.advance("4h")
    first, *others = [number for number in numbers if number % 5 != 0]
    # Hosts that may be worked with the first do not wait for the others.
    together = [number for number in others if number % 5 == first % 5]
    assert driver.hosts[: 1 + len(together)] == [name_of(n) for n in (first, *together)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("place", "together", "crashes"),
    [("committed", 1, (2, 5)), ("committed", 2, (1, 3)), ("called", 2, (1, 4))],
)
def test_crash_with_many_due_operations_keeps_the_order(
    tmp_path: Path,
    seed: int,
    place: str,
    together: int,
    crashes: tuple[int, int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch, "TOGETHER_MAX", together)
    numbers = [(number * 7 + seed) % HOSTS for number in range(HOSTS)]
    driver = Called()
    world = World(
        store=lambda: SqliteStore(tmp_path / "forewarn.db"),
        driver=driver,
        fleet=fleet(HOSTS, is_shared=False),
        seed=seed,
    )
    at = world.now + 15 * MINUTE
    for number in numbers[:6]:
        maintain(world, number, at=at)
    # What is ordered after a restart and a step back of the clock comes after it.
    world.restart()
    world.step_clock("1m", back=True)
    for number in numbers[6:]:
        maintain(world, number, at=at)
    world.advance("14m")
    for often in crashes:
        world.crash_at = lambda here, count, end=world.passed[place] + often: (
            here == place and count == end
        )
        with pytest.raises(CrashError):
            world.advance("5m")
        world.restart()
    world.advance("5m")
    assert driver.hosts == [name_of(number) for number in numbers]


def test_what_is_due_does_not_wait_for_a_failing_step_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = Called()
    world = World(store=MemoryStore, driver=driver, fleet=fleet(3, is_shared=False))
    for number in range(3):
        maintain(world, number, at=world.now + 15 * MINUTE)
    last = world.operations()[-1].operation_id

    def recheck(work: Work, operation_id: str) -> object:
        assert operation_id != last, "a bug"
        return ready(work, operation_id)

    ready = again.recheck
    monkeypatch.setattr(again, "recheck", recheck)
    with pytest.raises(AssertionError, match="a bug"):
        world.advance("20m")
    assert driver.hosts == [name_of(0), name_of(1)]


@pytest.mark.amounts
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_many_due_operations_start_in_order_at_constant_cost(
    tmp_path: Path, kind: str
) -> None:
    count = amounts().rollout_hosts

    def store() -> Store:
        if kind == "memory":
            return MemoryStore()
        return SqliteStore(tmp_path / "forewarn.db")

    driver = Called()
    world = World(store=store, driver=driver, fleet=fleet(count, is_shared=False))
    numbers = [(number * 389) % count for number in range(count)]
    at = world.now + HOUR
    for number in numbers:
        maintain(world, number, at=at)
    world.clock.advance_to(at)
    before = world.passed["committed"]
    turns = 1
    while world.plane.advance(now=world.now):
        turns += 1
    assert driver.hosts == [name_of(number) for number in numbers]
    # Many start in one transaction, in turns between which others are answered.
    assert world.passed["committed"] - before == -(-count // batch.TOGETHER_MAX)
    assert turns >= count / batch.TOGETHER_MAX


def test_events_of_one_instant_are_listed_in_request_order() -> None:
    for seed in range(20):
        world = World(
            store=MemoryStore,
            driver=SimulatedDriver(),
            fleet=fleet(HOSTS, is_shared=True),
            seed=seed,
        )
        world.vm("v-0").get()
        world.order(
            lambda work: verbs.change_vms(work, ["v-3"], Verb.REBOOT, OrderOptions())
        )
        world.order(
            lambda work: verbs.change_vms(work, ["v-1"], Verb.REBOOT, OrderOptions())
        )
        world.order(
            lambda work: verbs.change_vms(work, ["v-2"], Verb.REBOOT, OrderOptions())
        )
        shown = world.vm("v-0").get().events
        assert [event["Resources"] for event in shown] == [["v-3"], ["v-1"], ["v-2"]]


@pytest.mark.parametrize("seed", range(40))
def test_two_events_scenario_starts_both_events_on_time(seed: int) -> None:
    scenario = find("two-events")

    async def play() -> list[Operation]:
        stage = virtual_stage(setup_for([scenario]), seed=seed)
        VirtualClient(stage, "web_0").get()
        VirtualClient(stage, "web_1").get()
        runner = Runner(stage, VirtualTime(stage, actors=[]), tell=lambda _line: None)
        await runner.run(scenario)
        world = stage.engine
        assert isinstance(world, engine.World)
        operations = world.read(
            lambda reader: list(every(reader, kinds.ALL_OPERATIONS))
        )
        await stage.end()
        return operations

    freeze, restart = asyncio.run(play())
    assert (freeze.verb, restart.verb) == (Verb.MAINTAIN, Verb.REBOOT)
    for operation in (freeze, restart):
        assert operation.started_at == operation.not_before
