"""A fleet goes into PostgreSQL with a number of statements that does not depend on it."""

from collections.abc import Sequence
from typing import Any

import pytest

from forewarn.control.plane import Plane
from forewarn.control.requests import fleet_changes
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Who
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.fleet.file import read_fleet
from forewarn.ids import RandomIds
from forewarn.protocol.actors import operator
from forewarn.protocol.published import Publication
from forewarn.store.postgres.connection import PostgresConnection
from forewarn.store.postgres.store import PostgresStore
from tests.support import postgres
from tests.unit.admin.gateway import START

pytestmark = postgres.needing_postgres


class Silent:
    """Listens and does nothing."""

    def publish(self, publication: Publication) -> None:
        pass

    def changed(self, operations: Sequence[str]) -> None:
        pass


def fleet(hosts: int) -> str:
    """Return a fleet with a set over all hosts, and a VM of its own on each."""
    return '[[scope]]\nname = "web"\nkind = "availability-set"\n' + "".join(
        f'[[host]]\nname = "h{number}"\n'
        f'[[vm]]\nname = "web_{number}"\nhost = "h{number}"\nscope = "web"\n'
        f"fault_domain = {number}\n"
        f'[[vm]]\nname = "own_{number}"\nhost = "h{number}"\n'
        for number in range(hosts)
    )


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the statements of all connections, as they are sent."""
    sent: list[str] = []
    send = PostgresConnection._cursor

    def count(self: PostgresConnection, sql: str, parameters: Any) -> Any:
        sent.append(sql)
        return send(self, sql, parameters)

    monkeypatch.setattr(PostgresConnection, "_cursor", count)
    return sent


def started(store: PostgresStore) -> Plane:
    plane = Plane(
        store=store,
        driver=SimulatedDriver(),
        policy=Policy(),
        ids=RandomIds(3),
        listener=Silent(),
    )
    plane.start(now=START)
    return plane


def test_statements_of_fleet_and_takeover_do_not_grow_with_the_fleet(
    statements: list[str],
) -> None:
    """The first fleet, one that adds as many VMs, and the start of another leader."""
    counts: list[tuple[int, int, int]] = []
    for hosts in (20, 60):
        with postgres.lent_databases() as lend:
            store = PostgresStore(lend())
            plane = started(store)
            sent: list[int] = []
            for many in (hosts, 2 * hosts):
                statements.clear()
                wanted = read_fleet(fleet(many), name="fleet.toml")
                plane.order(
                    Who(actor=operator("test")),
                    lambda work, wanted=wanted: fleet_changes.apply(work, wanted),
                    now=START,
                )
                sent.append(len(statements))
            statements.clear()
            started(store)
            writes = [each for each in statements if not each.startswith("SELECT")]
            assert not [each for each in writes if "vms" in each or "views" in each]
            counts.append((sent[0], sent[1], len(statements)))
            store.close()
    small, large = counts
    assert small == large
