"""The number of statements to PostgreSQL for a fleet, and for a rollout over it."""

import math
from contextlib import closing

import pytest

from forewarn.control.requests import verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who
from forewarn.instants import SECOND
from forewarn.protocol.actors import operator
from forewarn.protocol.operations import Action, Verb
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.postgres import connection
from forewarn.store.postgres.store import PostgresStore
from tests.support import postgres
from tests.support.postgres_planes import apply, counted, order, started
from tests.unit.admin.gateway import START

pytestmark = postgres.needing_postgres

ANNOUNCED_STATEMENTS_MAX = 52
"""Statements for one more host of a rollout, with two VMs: its order, its announcement,
and the questions which hosts may follow."""


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
    return counted(monkeypatch)


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
                apply(plane, fleet(many))
                sent.append(len(statements))
            statements.clear()
            started(store)
            writes = [
                statement
                for statement in statements
                if not statement.startswith("SELECT")
            ]
            assert not [write for write in writes if "vms" in write or "views" in write]
            counts.append((sent[0], sent[1], len(statements)))
            store.close()
    small, large = counts
    assert small == large


def test_no_statement_writes_more_rows_than_the_limit(
    statements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One statement with a million rows would take longer than a statement may."""
    hosts, limit = 7, 3
    monkeypatch.setattr(connection, "ROWS_PER_STATEMENT", limit)
    with postgres.lent_databases() as lend:
        store = PostgresStore(lend())
        plane = started(store)
        statements.clear()
        apply(plane, fleet(hosts))
        added = [
            statement
            for statement in statements
            if statement.startswith("INSERT INTO hosts ")
        ]
        assert len(added) == math.ceil(hosts / limit)
        vms = store.read(lambda reader: [*every(reader, kinds.ALL_VMS)])
        assert len(vms) == 2 * hosts
        store.close()


def announced(statements: list[str], hosts: int) -> int:
    """Return the statements until all hosts of a fleet are announced, all at once."""
    with postgres.lent_databases() as lend:
        store = PostgresStore(lend())
        plane = started(store)
        names = [f"h{number}" for number in range(hosts)]
        apply(
            plane,
            "".join(
                f'[[host]]\nname = "{name}"\n'
                f'[[vm]]\nname = "a_{name}"\nhost = "{name}"\n'
                f'[[vm]]\nname = "b_{name}"\nhost = "{name}"\n'
                for name in names
            ),
        )
        options = OrderOptions(at_once=hosts)
        statements.clear()
        order(plane, lambda work: verbs.maintain(work, names, Action.REBOOT, options))
        while plane.advance(now=START):  # the hosts beyond the first iteration
            pass
        sent = len(statements)
        assert not store.read(
            lambda reader: reader.select(kinds.OPERATIONS_IN_STATE, "Planned", limit=1)
        )
        store.close()
    return sent


def test_statements_for_one_host_do_not_grow_with_the_rollout(
    statements: list[str],
) -> None:
    """Each turn announces the first host that waits, and asks nothing about the others."""
    few, many = (announced(statements, hosts) for hosts in (6, 36))
    assert (many - few) / 30 <= ANNOUNCED_STATEMENTS_MAX


STEADY_STATEMENTS_MAX = 2.0
"""Statements for one operation of a steady load, from its order to its end."""

STEADY_COMMITS_MAX = 0.2
"""Transactions for one of them: its order, its reports and the end of its recovery are
each decided together with those of others."""


def test_steady_load_takes_few_statements_and_transactions(
    statements: list[str],
) -> None:
    """The VMs are restarted again: what the first time has read is remembered."""
    vms, together = 60, 20
    names = [f"vm_{number}" for number in range(vms)]
    with postgres.lent_databases() as lend:
        store = PostgresStore(lend())
        plane = started(store)
        apply(
            plane,
            '[[host]]\nname = "h"\n'
            + "".join(f'[[vm]]\nname = "{name}"\nhost = "h"\n' for name in names),
        )
        now = START
        for _ in range(2):
            statements.clear()
            for first in range(0, vms, together):
                some = names[first : first + together]
                plane.order(
                    Who(actor=operator("test")),
                    lambda work, some=some: verbs.change_vms(
                        work, some, Verb.REBOOT, OrderOptions()
                    ),
                    now=now,
                )
                now += SECOND // 10
            while (due := plane.next_due()) is not None:
                now = max(now, due)
                while plane.advance(now=now):
                    pass
        ended = store.read(lambda it: it.due(kinds.OPERATIONS_ENDED, now))
        assert len(ended) == 2 * vms
        assert len(statements) <= STEADY_STATEMENTS_MAX * vms
        assert statements.count("COMMIT") <= STEADY_COMMITS_MAX * vms
        statements.clear()
        plane.advance(now=now)
        plane.next_due()
        assert statements == [], "nothing is due, and the next timer is known"
        store.close()


def test_new_vm_is_stored_once_with_its_view() -> None:
    with postgres.lent_databases() as lend, closing(PostgresStore(lend())) as store:
        apply(started(store), fleet(2))
        vms = store.read(lambda reader: list(every(reader, kinds.ALL_VMS)))
        views = store.read(lambda reader: list(every(reader, kinds.ALL_VIEWS)))
    assert {vm.revision for vm in vms} == {0}
    assert {vm.view for vm in vms} == {view.view_id for view in views}
