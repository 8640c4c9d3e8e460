"""The hosts of a campaign by stage and rack add up to the counts of the campaign."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from forewarn.control.requests import campaigns
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action, OperationState
from forewarn.protocol.visits import VisitState
from forewarn.reporting import campaign_racks
from forewarn.reporting.campaign_racks import HostCourse, course_of
from forewarn.reporting.campaigns import campaign_report
from forewarn.store.connection import Connection
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Store
from forewarn.store.snapshot import snapshots_of
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import campaign, file_of, start, start_text, steer
from tests.support.rollouts import fleet
from tests.support.worlds import World

TWO_STAGES = """
[campaign.budget]
in_flight = 2
[campaign.tolerance]
failures = 1
in_a_row = 1
[[campaign.stage]]
hosts = 1
[[campaign.stage]]
hosts = "100%"
"""


def racked(hosts: int, per_rack: int) -> str:
    """Return a fleet whose hosts are in racks r0, r1, and so on."""
    parts = fleet([{f"s{number}": 0} for number in range(hosts)]).split("[[host]]\n")
    first, *others = parts
    return "[[host]]\n".join(
        [
            first,
            *(
                part.replace("\n", f'\nrack = "r{number // per_rack}"\n', 1)
                for number, part in enumerate(others)
            ),
        ]
    )


def world_of(
    hosts: int,
    per_rack: int,
    *,
    driver: SimulatedDriver | None = None,
    store: Callable[[], Store] = MemoryStore,
) -> World:
    return World(
        store=store, driver=driver or SimulatedDriver(), fleet=racked(hosts, per_rack)
    )


def rows(world: World) -> list[dict[str, Any]]:
    """Return the rows, which add up to the campaign's own counts."""
    now = campaign(world)
    found = world.read(lambda reader: campaign_racks.campaign_racks(reader, now))
    report = world.read(lambda reader: campaign_report(reader, now, now=world.now))
    total = Counter[str]()
    for row in found["racks"]:
        assert row["hosts"] == sum(row[course.value] for course in HostCourse)
        total.update({course.value: row[course.value] for course in HostCourse})
    assert total == {
        "done": report["done"],
        "in_flight": report["in_flight"],
        "waiting": report["waiting"] + report["deferred_count"],
        "failed": len(report["failed"]),
        "skipped": report["skipped"],
    }
    return found["racks"]


def test_rows_follow_each_host_to_its_end() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s4-4", times=3))
    world = world_of(6, 2, driver=driver)
    start(world, TWO_STAGES)
    first = [(row["stage"], row["rack"], row["hosts"]) for row in rows(world)]
    assert first == [(1, "r0", 1), (2, "r0", 1), (2, "r1", 2), (2, "r2", 2)]
    seen = set[str]()
    for _ in range(60):
        world.advance("10m")
        seen |= {name for row in rows(world) for name, value in row.items() if value}
    assert {"in_flight", "done", "failed"} <= seen
    assert [row["failed"] for row in rows(world)] == [0, 0, 0, 1]
    steer(world, lambda work: campaigns.skip(work, "bios", ["h0004"]))
    assert rows(world)[-1]["skipped"] == 1


def test_hosts_that_an_abort_leaves_out_are_skipped() -> None:
    world = world_of(4, 4)
    start(world, TWO_STAGES)
    steer(world, lambda work: campaigns.abort(work, "bios"))
    assert [row["skipped"] for row in rows(world)] == [1, 3]


def test_a_snapshot_of_the_file_gives_the_same_rows(tmp_path: Path) -> None:
    """The operator API reads single fields of a snapshot."""
    file = tmp_path / "racks.db"
    world = world_of(6, 2, store=lambda: SqliteStore(file))
    start(world, TWO_STAGES)
    world.advance("2h")
    expected = rows(world)
    snapshot = snapshots_of(file)
    stored = snapshot.read(
        lambda reader: campaign_racks.campaign_racks(reader, campaign(world))
    )
    snapshot.close()
    assert stored["racks"] == expected


def test_only_the_hosts_of_the_campaign_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "racks.db"
    world = world_of(40, 2, store=lambda: SqliteStore(file))
    text = file_of(TWO_STAGES).replace("{ all = true }", '{ rack = ["r3", "r4"] }')
    start_text(world, text)
    read: list[tuple[Any, ...]] = []
    rows, pages = Connection.rows, Connection.pages

    def noted_rows(self: Connection, *arguments: Any) -> Sequence[Any]:
        result = rows(self, *arguments)
        read.extend(result)
        return result

    def noted_pages(self: Connection, *arguments: Any) -> Iterator[Any]:
        for page in pages(self, *arguments):
            read.extend(page)
            yield page

    running = campaign(world)
    monkeypatch.setattr(Connection, "rows", noted_rows)
    monkeypatch.setattr(Connection, "pages", noted_pages)
    snapshot = snapshots_of(file)
    stored = snapshot.read(
        lambda reader: campaign_racks.campaign_racks(reader, running)
    )
    snapshot.close()
    assert {rack["rack"] for rack in stored["racks"]} == {"r3", "r4"}
    assert len([row for row in read if row[1] in {"r3", "r4"}]) == 4
    # An operation and a host for each of the four hosts.
    assert len(read) == 8


@pytest.mark.parametrize(
    ("state", "visit", "course"),
    [
        (OperationState.DONE, VisitState.VERIFYING, HostCourse.IN_FLIGHT),
        (OperationState.DONE, VisitState.DONE, HostCourse.DONE),
        (OperationState.DONE, VisitState.SKIPPED, HostCourse.SKIPPED),
        (OperationState.IMPACTING, VisitState.WORKING, HostCourse.IN_FLIGHT),
        (OperationState.PLANNED, VisitState.WAITING, HostCourse.WAITING),
        (OperationState.CANCELLED, VisitState.SKIPPED, HostCourse.SKIPPED),
    ],
)
def test_a_host_is_done_when_its_visit_is(
    state: OperationState, visit: VisitState, course: HostCourse
) -> None:
    assert course_of(state, visit) is course
