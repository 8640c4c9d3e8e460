"""A store's file with records of every kind, and running operations."""

import shutil
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from forewarn.clock import VirtualClock
from forewarn.control.plane import Plane
from forewarn.control.requests import failures, fleet_changes, verbs
from forewarn.control.requests.approvals import Approval
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.instants import HOUR, MINUTE, SECOND
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action
from forewarn.protocol.published import Publication
from forewarn.store import kinds
from forewarn.store.check import check
from forewarn.store.sqlite import SqliteStore
from tests.unit.admin.gateway import START

ACTIONS = {"h1": Action.REBOOT, "h2": Action.LIVE_MIGRATE, "h4": Action.FREEZE}

FLEET = (
    '[[tenant]]\nname = "shop"\n[[tenant]]\nname = "bank"\n'
    '[[scope]]\nname = "web"\ntenant = "shop"\nkind = "availability-set"\n'
    '[[scope]]\nname = "set"\ntenant = "shop"\nkind = "availability-set"\n'
    + "".join(f'[[host]]\nname = "h{number}"\n' for number in (1, 2, 3, 4, 5, 9))
    + "".join(
        f'[[vm]]\nname = "{name}"\nhost = "{host}"\n{more}\n'
        for name, host, more in (
            ("done_0", "h1", 'tenant = "bank"'),
            ("moved_0", "h2", 'tenant = "shop"'),
            ("down_0", "h3", 'tenant = "shop"'),
            ("web_0", "h4", 'scope = "web"'),
            ("idle", "h9", 'tenant = "shop"'),
            ("idle_0", "h9", 'scope = "set"'),
            ("idle_1", "h9", 'scope = "set"'),
        )
    )
)


class _Nobody:
    """Listens and does nothing."""

    def publish(self, publication: Publication) -> None:
        pass

    def changed(self, operations: Sequence[str]) -> None:
        pass


def write_a_life(file: Path) -> None:
    """Write a store: one operation done, one waiting, one under way, one failure."""
    store, clock = SqliteStore(file), VirtualClock(START)
    plane = Plane(
        store=store,
        driver=SimulatedDriver(impacts={Action.LIVE_MIGRATE: HOUR}),
        policy=Policy(),
        ids=RandomIds(3),
        listener=_Nobody(),
    )
    plane.start(now=START)

    def order(decide: Callable[[Work], object]) -> None:
        plane.order(Who(actor=operator("test")), decide, now=clock.now())

    def maintain(host: str) -> None:
        order(lambda work: verbs.maintain(work, [host], ACTIONS[host], OrderOptions()))

    def wait(duration: int) -> None:
        target = clock.now() + duration
        while (due := plane.next_due()) is not None and due <= target:
            clock.advance_to(max(due, clock.now()))
            plane.advance(now=clock.now())
        clock.advance_to(target)

    wanted = read_fleet(FLEET, name="fleet.toml")
    order(lambda work: fleet_changes.apply(work, wanted))
    for vm in ("done_0", "moved_0", "web_0"):
        plane.enable(vm, now=clock.now())
    maintain("h1")
    [event] = store.read(lambda reader: reader.select(kinds.LIVE_EVENTS))
    plane.approve([Approval(vm="done_0", event_ids=(event.event_id,))], now=clock.now())
    wait(HOUR)
    maintain("h2")
    wait(16 * MINUTE)
    order(lambda work: failures.fail_host(work, "h3"))
    maintain("h4")
    wait(SECOND)
    store.close()


def damaged(written: Path, tmp_path: Path, damage: str) -> list[str]:
    """Return what the check finds in a copy of a store after a statement."""
    file = Path(shutil.copy(written, tmp_path / "forewarn.db"))
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(damage)
        connection.commit()
    return check(file)
