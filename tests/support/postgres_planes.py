"""A plane on a store in PostgreSQL, and the statements that it sends."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who, Work
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.protocol.actors import operator
from forewarn.protocol.published import Publication
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.store import PostgresStore
from tests.unit.admin.gateway import START


class Silent:
    """Listens and does nothing."""

    def publish(self, publication: Publication) -> None:
        pass

    def changed(self, operations: Sequence[str]) -> None:
        pass


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the statements of all connections, as they are sent."""
    sent: list[str] = []
    send = PostgresConnection._cursor

    def count(self: PostgresConnection, sql: str, parameters: Any) -> Any:
        sent.append(sql)
        return send(self, sql, parameters)

    monkeypatch.setattr(PostgresConnection, "_cursor", count)
    return sent


def started(store: PostgresStore) -> Plane:
    """Return a plane that has read its store."""
    plane = Plane(
        store=store,
        driver=SimulatedDriver(),
        policy=Policy(),
        ids=RandomIds(3),
        listener=Silent(),
    )
    plane.start(now=START)
    return plane


def order(plane: Plane, act: Callable[[Work], object]) -> None:
    """Give an order."""
    plane.order(Who(actor=operator("test")), act, now=START)


def apply(plane: Plane, fleet: str) -> None:
    """Apply a fleet file."""
    wanted = read_fleet(fleet, name="fleet.toml")
    order(plane, lambda work: fleet_changes.apply(work, wanted))
