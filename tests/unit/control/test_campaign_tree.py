"""The hosts of a campaign by cluster and rack, and as rows with what each did."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.redaction import tenant_reader
from forewarn.control.requests import campaigns, rollouts
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.fleet.model import Host
from forewarn.instants import format_instant, parse_instant
from forewarn.protocol.errors import NotFoundError
from forewarn.protocol.operations import Action, OperationState
from forewarn.protocol.visits import VisitState
from forewarn.reporting import (
    campaign_courses,
    campaign_rows,
    campaign_tree,
    host_phases,
    reports,
)
from forewarn.reporting.campaign_courses import Attempt
from forewarn.reporting.campaign_host import campaign_host
from forewarn.reporting.campaign_rows import Asked
from forewarn.reporting.campaign_states import HostState, state_of, worst
from forewarn.reporting.campaigns import campaign_report
from forewarn.reporting.expected import expected_of
from forewarn.store.memory import MemoryStore
from forewarn.store.port import Reader, Store
from forewarn.store.snapshot import snapshots_of
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import campaign, start, steer
from tests.support.rollouts import fleet
from tests.support.worlds import World

TWO_AT_ONCE = """
[campaign.budget]
in_flight = 2
[campaign.tolerance]
failures = 3
in_a_row = 3
[[campaign.stage]]
hosts = "100%"
"""


def placed(hosts: int, *, per_rack: int = 2, per_cluster: int = 4) -> str:
    """Return a fleet whose hosts have a VM each and are in racks and clusters."""
    parts = fleet([{f"s{number}": 0} for number in range(hosts)]).split("[[host]]\n")
    first, *others = parts
    return "[[host]]\n".join(
        [
            first,
            *(
                part.replace(
                    "\n",
                    f'\nrack = "r{number // per_rack}"\n'
                    f'cluster = "c{number // per_cluster}"\n',
                    1,
                )
                for number, part in enumerate(others)
            ),
        ]
    )


def world_of(
    hosts: int = 8,
    *,
    driver: SimulatedDriver | None = None,
    store: Store | None = None,
) -> World:
    return World(
        store=lambda: store or MemoryStore(),
        driver=driver or SimulatedDriver(),
        fleet=placed(hosts),
    )


def tree(world: World, reader: Reader | None = None, **asked: Any) -> dict[str, Any]:
    def read(reader: Reader) -> dict[str, Any]:
        return campaign_tree.campaign_tree(
            reader, campaign(world), now=world.now, **asked
        )

    return read(reader) if reader is not None else world.read(read)


def rows(world: World, *, limit: int = 100, **asked: Any) -> dict[str, Any]:
    def read(reader: Reader) -> dict[str, Any]:
        known = tenant_reader.remembered(reader)
        expected = expected_of(known, campaign(world), now=world.now)
        return campaign_rows.campaign_rows(expected, Asked(limit=limit, **asked))

    return world.read(read)


def one(world: World, host: str) -> dict[str, Any]:
    return world.read(
        lambda reader: campaign_host(
            expected_of(reader, campaign(world), now=world.now), host
        )
    )


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {each["host"]: each for each in found["hosts"]}


def test_counts_of_clusters_and_racks_and_rows_add_up_at_each_moment() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s5-5", times=3))
    it = world_of(driver=driver)
    start(it, TWO_AT_ONCE)
    seen = set[str]()
    for _ in range(40):
        found = tree(it)
        report = it.read(
            lambda reader: campaign_report(reader, campaign(it), now=it.now)
        )
        for parts in (found["clusters"], found["racks"]):
            total = Counter[str]()
            for each in parts:
                assert each["hosts"] == sum(each["counts"].values())
                total.update(each["counts"])
            assert dict(total) == found["counts"]
        assert sum(found["counts"].values()) == found["hosts"] == report["hosts"]
        assert found["counts"].get("done", 0) == report["done"]
        assert found["counts"].get("failed", 0) == len(report["failed"])
        assert found["counts"].get("planned", 0) == report["waiting"]
        shown = {each["host"]: each["state"] for each in rows(it)["hosts"]}
        assert Counter(shown.values()) == found["counts"]
        assert shown == dict(
            state for each in found["racks"] for state in each["states"]
        )
        seen |= set(found["counts"])
        it.advance("5m")
    assert {"planned", "announced", "failed", "done"} <= seen
    failed = next(each for each in tree(it)["racks"] if each["rack"] == "r2")
    assert failed["worst"] == "failed"


def test_cluster_alone_is_the_same_part_of_the_whole(tmp_path: Path) -> None:
    """It is found by indexes, and the whole campaign by single fields of a snapshot."""
    file = tmp_path / "tree.db"
    it = world_of(store=SqliteStore(file))
    start(it, TWO_AT_ONCE)
    it.advance("25m")
    snapshot = snapshots_of(file)
    whole = snapshot.read(lambda reader: tree(it, reader))
    snapshot.close()
    assert whole == tree(it)
    for cluster in whole["clusters"]:
        name = cluster["cluster"]
        alone = tree(it, cluster=name)
        assert alone["clusters"] == [cluster]
        assert alone["racks"] == [
            each for each in whole["racks"] if each["cluster"] == name
        ]


def test_large_campaign_has_no_racks_until_a_cluster_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(campaign_tree, "RACKS_MAX", 3)
    it = world_of()
    start(it, TWO_AT_ONCE)
    found = tree(it)
    assert (found["racks"], found["racks_left_out"]) == ([], 4)
    assert [each["racks"] for each in found["clusters"]] == [2, 2]
    assert len(tree(it, cluster="c1")["racks"]) == 2


def test_large_campaign_has_no_states_of_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = world_of()
    start(it, TWO_AT_ONCE)
    monkeypatch.setattr(reports, "HOSTS_NAMED_MAX", 8)
    assert [len(each["states"]) for each in tree(it)["racks"]] == [2, 2, 2, 2]
    monkeypatch.setattr(reports, "HOSTS_NAMED_MAX", 7)
    assert [len(each["states"]) for each in tree(it)["racks"]] == [0, 0, 0, 0]


def test_lane_has_work_that_is_done_goes_on_and_is_expected() -> None:
    it = world_of()
    start(it, TWO_AT_ONCE)
    while not tree(it)["counts"].get("done"):
        it.advance("1m")
    it.advance("1m")
    lanes = {each["rack"]: each["lane"] for each in tree(it)["racks"]}
    [state, begins, ends] = lanes["r0"][0]
    assert (state, begins < ends <= format_instant(it.now)) == ("done", True)
    going_on = [part for lane in lanes.values() for part in lane if part[2] is None]
    assert {part[0] for part in going_on} == {"announced"}
    [planned] = lanes["r3"]
    assert planned[0] == "planned"
    assert planned[1] > format_instant(it.now)
    # What has ended before the time is left out.
    late = {each["rack"]: each["lane"] for each in tree(it, first=it.now)["racks"]}
    assert late["r0"] == [part for part in lanes["r0"] if part[0] != "done"]


def test_rows_of_a_rack_are_pages_by_name_with_what_each_waits_for() -> None:
    it = world_of()
    start(it, TWO_AT_ONCE)
    first = rows(it, places=("rack=r0",), limit=1)
    assert [each["host"] for each in first["hosts"]] == ["h0000"]
    rest = rows(it, places=("rack=r0",), limit=1, after=first["next"])
    assert [each["host"] for each in rest["hosts"]] == ["h0001"]
    [row] = first["hosts"]
    assert (row["state"], row["stage"], row["position"]) == ("announced", 1, 1)
    assert row["approvals"] == {"have": 0, "of": 1}
    assert [each["kind"] for each in row["blockers"]] == ["approval", "not before"]
    [segment] = row["segments"]
    assert (segment["state"], segment["until"]) == ("announced", None)
    assert row["step"]["since"] == segment["from"]
    assert row["forecast"] is None
    assert rows(it, places=("rack=r0", "cluster=c1"))["hosts"] == []


def test_segments_follow_the_history_of_each_host() -> None:
    it = world_of(2)
    start(it, TWO_AT_ONCE)
    it.advance("3h")
    row = by_name(rows(it))["h0000"]
    segments = row["segments"]
    assert row["state"] == "done"
    assert [each["state"] for each in segments][:1] == ["announced"]
    assert {"impacting", "recovering"} <= {each["state"] for each in segments}
    for before, after in pairwise(segments):
        assert before["until"] == after["from"]
    assert all(each["until"] for each in segments)
    late = parse_instant(segments[-1]["from"])
    shown = by_name(rows(it, first=late))["h0000"]["segments"]
    assert shown == segments[-1:]


def test_work_on_a_host_with_many_scopes_ends() -> None:
    """Its history has some hundred entries before the one of the impact."""
    it = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet([{f"s{number}": 0 for number in range(110)}]),
    )
    start(it, TWO_AT_ONCE)
    it.advance("3h")
    [row] = rows(it)["hosts"]
    assert row["state"] == "done"
    shown = [each["state"] for each in row["segments"]]
    assert shown[0] == "announced"
    assert {"impacting", "recovering"} <= set(shown)
    assert all(each["until"] for each in row["segments"])
    assert one(it, "h0000")["usual"]["step_seconds"]["recovering"] > 0


def test_work_whose_history_is_too_long_ends_as_the_record_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_phases, "ENTRIES_MAX", 5)
    it = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet([{f"s{number}": 0 for number in range(9)}]),
    )
    start(it, TWO_AT_ONCE)
    it.advance("3h")
    [row] = rows(it)["hosts"]
    assert row["state"] == "done"
    assert row["segments"][-1]["until"] == format_instant(it.operations()[0].ended_at)


def test_hosts_without_operations_are_listed_once_for_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollouts, "PAGE", 2)
    it = world_of()
    reads = 0
    read_all = campaign_courses.unplanned

    def counted(reader: Reader, record: CampaignRecord) -> list[Attempt]:
        nonlocal reads
        reads += 1
        return read_all(reader, record)

    it.plane.bound_turns(lambda: True)
    start(it, TWO_AT_ONCE, is_settled=False)
    monkeypatch.setattr(campaign_courses, "unplanned", counted)
    found = rows(it)["hosts"]
    assert [each["host"] for each in found] == [f"h000{number}" for number in range(8)]
    early = [each for each in found if each["operation"] and not each["attempts"]]
    assert [each["position"] for each in early] == [3, 4, 5, 6, 7, 8]
    assert {(each["state"], each["vms"]) for each in early} == {("planned", 1)}
    assert reads == 1
    only_done = rows(it, states=frozenset({HostState.DONE}))["hosts"]
    assert only_done == []


def test_waiting_row_names_the_host_that_it_waits_for() -> None:
    it = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet([{"first": 0}, {"one": 0}, {"one": 1}]),
    )
    start(it, TWO_AT_ONCE)
    # One host is in flight until the first one is done, then two.
    while by_name(rows(it))["h0001"]["state"] != "announced":
        it.advance("1m")
    held = by_name(rows(it))["h0002"]
    assert held["state"] == "planned"
    [reason] = [each for each in held["blockers"] if each["operation"]]
    assert (reason["kind"], reason["scope"], reason["host"]) == (
        "scope in use",
        "one",
        "h0001",
    )


def test_states_select_rows_without_a_search_of_all_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    it = world_of()
    start(it, TWO_AT_ONCE)
    monkeypatch.setattr(campaign_rows, "LOOKED_MAX", 2)
    flying = rows(it, states=frozenset({HostState.ANNOUNCED, HostState.FAILED}))
    assert [each["host"] for each in flying["hosts"]] == ["h0000"]
    assert flying["next"] is None
    planned = rows(it, states=frozenset({HostState.PLANNED}))
    assert [each["host"] for each in planned["hosts"]] == ["h0001"]
    assert planned["next"] == "h0001"
    following = rows(it, states=frozenset({HostState.PLANNED}), after=planned["next"])
    assert [each["host"] for each in following["hosts"]] == ["h0002", "h0003"]


def test_skipped_host_is_shown_with_the_reason() -> None:
    it = world_of()
    start(it, TWO_AT_ONCE)
    steer(it, lambda work: campaigns.skip(work, "bios", ["h0007"]), reason="broken")
    row = by_name(rows(it, places=("rack=r3",)))["h0007"]
    assert row["state"] == "skipped"
    assert "broken" in row["note"]


def test_host_has_its_vms_with_their_courses_and_pauses() -> None:
    it = world_of(2)
    start(it, TWO_AT_ONCE)
    waiting = one(it, "h0000")
    assert [each["course"] for each in waiting["vm_list"]] == ["waiting"]
    assert waiting["usual"] is None
    it.advance("3h")
    found = one(it, "h0000")
    [vm] = found["vm_list"]
    assert (vm["vm"], vm["tenant"], vm["course"]) == ("s0-0", "shop", "done")
    assert vm["pause_seconds"] > 0
    assert found["usual"]["hosts"] == 2
    assert found["usual"]["work_seconds"] > 0
    with pytest.raises(NotFoundError, match="has no host 'h0009'"):
        one(it, "h0009")


def test_failed_host_shows_what_the_driver_said() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    it = world_of(2, driver=driver)
    start(it, TWO_AT_ONCE)
    it.advance("3h")
    found = one(it, "h0000")
    assert found["state"] == "failed"
    assert found["note"]
    assert {each["what"] for each in found["output"]} == {"driver failed"}
    assert all(each["text"] for each in found["output"])


def test_host_that_left_the_fleet_counts_without_a_place() -> None:
    it = world_of(4)
    start(it, TWO_AT_ONCE)
    it.advance("6h")

    def forget(reader: Reader) -> dict[str, Any]:
        class Without:
            """A reader of the same store, without a host."""

            def get(self, kind: type[Any], key: str) -> Any:
                is_gone = kind is Host and key == "h0003"
                return None if is_gone else reader.get(kind, key)

            def __getattr__(self, name: str) -> Any:
                return getattr(reader, name)

        return tree(it, cast("Any", Without()))

    found = it.read(forget)
    assert {each["cluster"]: each["hosts"] for each in found["clusters"]} == {
        "": 1,
        "c0": 3,
    }


@pytest.mark.parametrize(
    ("operation", "visit", "state"),
    [
        (OperationState.PLANNED, VisitState.WAITING, HostState.PLANNED),
        (OperationState.ANNOUNCED, VisitState.ANNOUNCED, HostState.ANNOUNCED),
        (OperationState.READY, None, HostState.READY),
        (OperationState.IMPACTING, VisitState.ENTERING, HostState.IMPACTING),
        (OperationState.DONE, VisitState.WORKING, HostState.IMPACTING),
        (OperationState.RECOVERING, VisitState.VERIFYING, HostState.RECOVERING),
        (OperationState.DONE, VisitState.FAILED, HostState.FAILED),
        (OperationState.DONE, VisitState.DONE, HostState.DONE),
        (OperationState.DONE, VisitState.SKIPPED, HostState.SKIPPED),
        (OperationState.FAILED, VisitState.DEFERRED, HostState.SKIPPED),
    ],
)
def test_state_of_a_host_is_that_of_its_visit_once_it_has_begun(
    operation: OperationState, visit: VisitState | None, state: HostState
) -> None:
    assert state_of(operation, visit) is state


def test_worst_state_is_the_one_that_needs_attention_most() -> None:
    assert worst([HostState.DONE, HostState.READY, HostState.ANNOUNCED]) is (
        HostState.READY
    )
    assert worst([]) is HostState.DONE
