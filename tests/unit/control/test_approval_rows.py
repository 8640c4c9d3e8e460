"""An approval writes few rows and takes few calls, whatever was ordered."""

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

from forewarn.control.requests import verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import HOUR
from forewarn.protocol.operations import Action, OperationState, Verb
from forewarn.store.sqlite import SqliteStore
from tests.support.worlds import World

STARTING_ROWS_MAX = 16
"""Of an approval that starts an impact on up to three VMs of one scope."""

WAITING_ROWS_MAX = 6
"""Of an approval that starts nothing: its event and its entry, at present."""

STARTING_CALLS_MAX = 1_151
"""Calls of Python functions for one approval that starts an impact: decision, rows,
commit, publication and the call of a simulated driver."""

WAITING_CALLS_MAX = 244
"""The same for one approval that starts nothing. Four of both ask whether another program
has written to the file."""

ORDERS: dict[str, Callable[[Work], object]] = {
    **{
        f"maintain {action.value}": (
            lambda work, action=action: verbs.maintain(
                work, ["h1"], action, OrderOptions()
            )
        )
        for action in (
            Action.FREEZE,
            Action.REBOOT,
            Action.REDEPLOY,
            Action.LIVE_MIGRATE,
        )
    },
    "reboot": lambda work: verbs.change_vms(work, ["v0"], Verb.REBOOT, OrderOptions()),
    "redeploy": lambda work: verbs.change_vms(
        work, ["v0"], Verb.REDEPLOY, OrderOptions()
    ),
    "evict": lambda work: verbs.change_vms(work, ["v0"], Verb.EVICT, OrderOptions()),
    "terminate": lambda work: verbs.change_vms(
        work, ["v0"], Verb.TERMINATE, OrderOptions()
    ),
    "upgrade-os": lambda work: verbs.change_vms(
        work, ["v0"], Verb.UPGRADE_OS, OrderOptions()
    ),
    "predict-failure": lambda work: verbs.predict_failure(
        work, ["h1"], HOUR, OrderOptions()
    ),
}


class CountingStore(SqliteStore):
    """A store that says how many rows its writer has changed."""

    @property
    def rows_changed(self) -> int:
        assert self._writer is not None
        return self._writer.rows_changed


def fleet(*, scopes: int, spot: bool) -> str:
    """Return three hosts, the first of them with three VMs."""
    text = '[[tenant]]\nname = "shop"\n'
    text += "".join(f'[[host]]\nname = "h{number}"\n' for number in (1, 2, 3))
    for number in range(scopes):
        text += (
            f'[[scope]]\nname = "s{number}"\ntenant = "shop"\nkind = "scale-set"\n'
            'terminate_notice = "10m"\nos_image_notice = "15m"\n'
        )
    for number in range(3):
        text += (
            f'[[vm]]\nname = "v{number}"\nhost = "h1"\nscope = "s{number % scopes}"\n'
            f"spot = {str(spot).lower()}\n"
        )
    return text


def approved(
    path: Path, order: str, *, scopes: int
) -> Iterator[tuple[int, OperationState]]:
    """Approve each event; yield the rows that it wrote, and what its operation does."""
    store = CountingStore(path)
    world = World(
        store=lambda: store,
        driver=SimulatedDriver(),
        fleet=fleet(scopes=scopes, spot=order == "evict"),
    )
    for number in range(3):
        world.plane.enable(f"v{number}", now=world.now)
    world.order(ORDERS[order])
    for event in world.live_events():
        post = Approval(vm=event.resources[0].vm, event_ids=(event.event_id,))
        before = store.rows_changed
        world.plane.approve([post], now=world.now)
        yield store.rows_changed - before, world.operation(event.operation).state
    store.close()


@pytest.mark.parametrize("order", ORDERS)
def test_approval_that_starts_an_impact_writes_few_rows(
    tmp_path: Path, order: str
) -> None:
    for written, state in approved(tmp_path / "forewarn.db", order, scopes=1):
        assert state is OperationState.IMPACTING
        assert written <= STARTING_ROWS_MAX


def test_approval_with_others_pending_writes_few_rows(tmp_path: Path) -> None:
    *waiting, last = approved(tmp_path / "forewarn.db", "maintain reboot", scopes=3)
    assert [state for _, state in waiting] == [OperationState.ANNOUNCED] * 2
    assert max(written for written, _ in waiting) <= WAITING_ROWS_MAX
    assert last[1] is OperationState.IMPACTING


def calls_of(act: Callable[[], object]) -> int:
    """Return how many Python functions were called, without those of the collector.

    Hypothesis measures each collection with a function of its own.
    """
    found = 0

    def count(_frame: FrameType, event: str, _given: object) -> None:
        nonlocal found
        found += event == "call"

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return found


def approval_calls(path: Path) -> tuple[int, int]:
    """Return the calls of an approval that starts nothing, and of one that does."""
    store = CountingStore(path)
    world = World(
        store=lambda: store, driver=SimulatedDriver(), fleet=fleet(scopes=3, spot=False)
    )
    for number in range(3):
        world.plane.enable(f"v{number}", now=world.now)
    world.order(ORDERS["maintain reboot"])
    posts = [
        Approval(vm=event.resources[0].vm, event_ids=(event.event_id,))
        for event in world.live_events()
    ]
    world.plane.approve(posts[:1], now=world.now)
    waiting, starting = (
        calls_of(lambda post=post: world.plane.approve([post], now=world.now))
        for post in posts[1:]
    )
    assert world.operation(world.live_events()[0].operation).state is (
        OperationState.IMPACTING
    )
    store.close()
    return waiting, starting


def test_approval_takes_few_calls(tmp_path: Path) -> None:
    # The first story makes what a process makes once: compiled functions, statements.
    approval_calls(tmp_path / "first.db")
    waiting, starting = approval_calls(tmp_path / "second.db")
    assert waiting <= WAITING_CALLS_MAX
    assert starting <= STARTING_CALLS_MAX


def test_hosts_that_start_together_are_not_read_again(tmp_path: Path) -> None:
    """Each query would also send the rows of the starts before it."""
    hosts = 30
    text = '[[tenant]]\nname = "shop"\n'
    for number in range(hosts):
        text += f'[[host]]\nname = "h{number}"\n'
        for vm in (2 * number, 2 * number + 1):
            text += f'[[vm]]\nname = "v{vm}"\nhost = "h{number}"\ntenant = "shop"\n'
    store = CountingStore(tmp_path / "forewarn.db")
    world = World(store=lambda: store, driver=SimulatedDriver(), fleet=text)
    for number in range(2 * hosts):
        world.plane.enable(f"v{number}", now=world.now)
    world.order(
        lambda work: verbs.maintain(
            work,
            [f"h{number}" for number in range(hosts)],
            Action.REBOOT,
            OrderOptions(at_once=hosts),
        )
    )
    while world.plane.advance(now=world.now):  # the hosts beyond the first iteration
        pass
    posts = {
        event.resources[0].vm: Approval(
            vm=event.resources[0].vm, event_ids=(event.event_id,)
        )
        for event in world.live_events()
    }
    assert len(posts) == 2 * hosts
    firsts, lasts = ([posts[f"v{n}"] for n in range(k, 2 * hosts, 2)] for k in (0, 1))
    world.plane.approve(firsts, now=world.now)
    assert store._writer
    asked: list[str] = []
    store._writer._sqlite.set_trace_callback(asked.append)
    world.plane.approve(lasts, now=world.now)
    store._writer._sqlite.set_trace_callback(None)
    assert {operation.state for operation in world.operations()} == {
        OperationState.IMPACTING
    }
    of_hosts = [sql for sql in asked if sql.startswith("SELECT") and "FROM vms" in sql]
    assert of_hosts == []
    assert sum(sql.startswith("UPDATE vms") for sql in asked) == 2 * hosts
    assert len([sql for sql in asked if sql.startswith("SELECT")]) < hosts
    store.close()
