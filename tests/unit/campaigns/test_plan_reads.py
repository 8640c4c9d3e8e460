"""A plan reads the store with a few statements, whatever the size of the fleet."""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from forewarn.campaigns.model import Impact
from forewarn.campaigns.planner import Terms
from forewarn.campaigns.text import CampaignText
from forewarn.control.requests.campaign_starts import PlanRequest, plan_of
from forewarn.fleet.model import Host, Scope, ScopeKind, Vm, capacity_of
from forewarn.instants import DAY, MINUTE
from forewarn.store.connection import Connection, Parameters
from forewarn.store.snapshot import reading
from forewarn.store.sqlite import SqliteStore

FILE = """\
[campaign]
name = "bios"
reason = "a reason"
impact = "{impact}"
select = {{ all = true }}
"""


def store_with(path: Path, hosts: int) -> None:
    """Write a fleet with four VMs on each host, and one cordoned host."""
    store = SqliteStore(path)
    names = [f"h{number:04}" for number in range(hosts)]
    shelves = [
        Host(name=name, rack=f"r{number % 9}", capacity=8, vcpu=64, memory=512)
        for number, name in enumerate(names)
    ]
    vms = [
        Vm(
            name=f"vm-{number}",
            wire_name=f"vm-{number}",
            host=names[number % hosts],
            scope=f"set{number // 5}",
            tenant="shop",
            view="",
            fault_domain=number % 5,
            vcpu=4,
            memory=32,
            vm_id=f"00000000-0000-4000-8000-{number:012x}",
        )
        for number in range(4 * hosts)
    ]
    scopes = [
        Scope(name=name, tenant="shop", kind=ScopeKind.AVAILABILITY_SET)
        for name in dict.fromkeys(vm.scope for vm in vms)
    ]
    rooms = [
        replace(capacity_of(host, use=(4, 16, 128)), is_cordoned=host.name == names[-1])
        for host in shelves
    ]
    with_all = [*shelves, *scopes, *vms, *rooms]
    store.transact(lambda tx: [tx.add(record) for record in with_all])
    store.close()


def request(impact: Impact) -> PlanRequest:
    return PlanRequest(
        text=CampaignText(name="bios.toml", text=FILE.format(impact=impact.value)),
        hosts_max=0,
        terms=Terms(notices=dict.fromkeys(Impact, 15 * MINUTE)),
        now=20_000 * DAY,
    )


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list of the statements that are run."""
    texts: list[str] = []
    rows, pages = Connection.rows, Connection.pages

    def noted_rows(
        self: Connection, sql: str, parameters: Parameters = ()
    ) -> Sequence[Any]:
        texts.append(sql)
        return rows(self, sql, parameters)

    def noted_pages(
        self: Connection, sql: str, size: int, parameters: Parameters = ()
    ) -> Iterator[Any]:
        texts.append(sql)
        return pages(self, sql, size, parameters)

    monkeypatch.setattr(Connection, "rows", noted_rows)
    monkeypatch.setattr(Connection, "pages", noted_pages)
    return texts


@pytest.mark.parametrize("impact", [Impact.REBOOT, Impact.LIVE_MIGRATE])
def test_statements_of_a_plan_do_not_depend_on_the_number_of_hosts(
    tmp_path: Path, statements: list[str], impact: Impact
) -> None:
    texts_by_size: list[list[str]] = []
    for hosts in (20, 1_200):
        path = tmp_path / f"{hosts}.db"
        store_with(path, hosts)
        with reading(path) as reader:
            statements.clear()
            plan = plan_of(reader, request(impact))
        assert len(plan.hosts) == hosts
        assert sum(plan.vms) == 4 * hosts
        texts_by_size.append([*statements])
    assert texts_by_size[0] == texts_by_size[1]
    assert len(texts_by_size[0]) <= 11


@pytest.mark.parametrize(
    ("impact", "are_read"), [(Impact.REBOOT, False), (Impact.LIVE_MIGRATE, True)]
)
def test_sizes_of_vms_are_read_only_if_vms_move(
    tmp_path: Path, statements: list[str], impact: Impact, are_read: bool
) -> None:
    path = tmp_path / "store.db"
    store_with(path, 20)
    with reading(path) as reader:
        statements.clear()
        plan_of(reader, request(impact))
        [of_vms] = [sql for sql in statements if "tenant, fault_domain" in sql]
        assert ("vcpu" in of_vms) == are_read
    # A row of the table itself is ten times as long as one of its index.
    plans: list[str] = []
    with contextlib.closing(sqlite3.connect(path)) as file:
        for sql in statements:
            if " vms" in sql:
                parameters = (
                    {"value": "", "after": "", "limit": 1} if ":" in sql else ()
                )
                cursor = file.execute(f"EXPLAIN QUERY PLAN {sql}", parameters)
                plans += [str(row[-1]) for row in cursor]
    assert plans
    assert not [
        told for told in plans if told.startswith("SCAN") and "INDEX" not in told
    ]
    assert "SCAN vms USING COVERING INDEX vms_by_host" in plans
