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
from forewarn.instants import MINUTE, format_instant, parse_instant
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
from forewarn.reporting.campaign_rows import RowSelection
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
        return campaign_rows.campaign_rows(expected, RowSelection(limit=limit, **asked))

    return world.read(read)


def one(world: World, host: str) -> dict[str, Any]:
    return world.read(
        lambda reader: campaign_host(
            expected_of(reader, campaign(world), now=world.now), host
        )
    )


def by_name(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {host["host"]: host for host in found["hosts"]}


def test_counts_of_clusters_and_racks_and_rows_add_up_at_each_moment() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s5-5", times=3))
    service = world_of(driver=driver)
    start(service, TWO_AT_ONCE)
    seen = set[str]()
    for _ in range(40):
        found = tree(service)
        report = service.read(
            lambda reader: campaign_report(reader, campaign(service), now=service.now)
        )
        for parts in (found["clusters"], found["racks"]):
            total = Counter[str]()
            for part in parts:
                assert part["hosts"] == sum(part["counts"].values())
                total.update(part["counts"])
            assert dict(total) == found["counts"]
        assert sum(found["counts"].values()) == found["hosts"] == report["hosts"]
        assert found["counts"].get("done", 0) == report["done"]
        assert found["counts"].get("failed", 0) == len(report["failed"])
        assert found["counts"].get("planned", 0) == report["waiting"]
        shown = {host["host"]: host["state"] for host in rows(service)["hosts"]}
        assert Counter(shown.values()) == found["counts"]
        assert shown == dict(
            state for rack in found["racks"] for state in rack["states"]
        )
        seen |= set(found["counts"])
        service.advance("5m")
    assert {"planned", "announced", "failed", "done"} <= seen
    failed = next(rack for rack in tree(service)["racks"] if rack["rack"] == "r2")
    assert failed["worst"] == "failed"


def test_cluster_alone_is_the_same_part_of_the_whole(tmp_path: Path) -> None:
    """It is found by indexes, and the whole campaign by single fields of a snapshot."""
    file = tmp_path / "tree.db"
    service = world_of(store=SqliteStore(file))
    start(service, TWO_AT_ONCE)
    service.advance("25m")
    snapshot = snapshots_of(file)
    whole = snapshot.read(lambda reader: tree(service, reader))
    snapshot.close()
    assert whole == tree(service)
    for cluster in whole["clusters"]:
        name = cluster["cluster"]
        alone = tree(service, cluster=name)
        assert alone["clusters"] == [cluster]
        assert alone["racks"] == [
            rack for rack in whole["racks"] if rack["cluster"] == name
        ]


def test_large_campaign_has_no_racks_until_a_cluster_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(campaign_tree, "RACKS_MAX", 3)
    service = world_of()
    start(service, TWO_AT_ONCE)
    found = tree(service)
    assert (found["racks"], found["racks_left_out"]) == ([], 4)
    assert [cluster["racks"] for cluster in found["clusters"]] == [2, 2]
    assert len(tree(service, cluster="c1")["racks"]) == 2


def test_large_campaign_has_no_states_of_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = world_of()
    start(service, TWO_AT_ONCE)
    monkeypatch.setattr(reports, "HOSTS_NAMED_MAX", 8)
    assert [len(rack["states"]) for rack in tree(service)["racks"]] == [2, 2, 2, 2]
    monkeypatch.setattr(reports, "HOSTS_NAMED_MAX", 7)
    assert [len(rack["states"]) for rack in tree(service)["racks"]] == [0, 0, 0, 0]


def test_lane_has_work_that_is_done_goes_on_and_is_expected() -> None:
    service = world_of()
    start(service, TWO_AT_ONCE)
    while not tree(service)["counts"].get("done"):
        service.advance("1m")
    service.advance("1m")
    lanes = {rack["rack"]: rack["lane"] for rack in tree(service)["racks"]}
    [state, begins, ends] = lanes["r0"][0]
    assert (state, begins < ends <= format_instant(service.now)) == ("done", True)
    going_on = [part for lane in lanes.values() for part in lane if part[2] is None]
    assert {part[0] for part in going_on} == {"announced"}
    [planned] = lanes["r3"]
    assert planned[0] == "planned"
    assert planned[1] > format_instant(service.now)
    # What has ended before the time is left out.
    late = {
        rack["rack"]: rack["lane"] for rack in tree(service, first=service.now)["racks"]
    }
    assert late["r0"] == [part for part in lanes["r0"] if part[0] != "done"]


def test_rows_of_a_rack_are_pages_by_name_with_what_each_waits_for() -> None:
    service = world_of()
    start(service, TWO_AT_ONCE)
    first = rows(service, places=("rack=r0",), limit=1)
    assert [host["host"] for host in first["hosts"]] == ["h0000"]
    rest = rows(service, places=("rack=r0",), limit=1, after=first["next"])
    assert [host["host"] for host in rest["hosts"]] == ["h0001"]
    [row] = first["hosts"]
    assert (row["state"], row["stage"], row["position"]) == ("announced", 1, 1)
    assert row["approvals"] == {"have": 0, "of": 1}
    assert [blocker["kind"] for blocker in row["blockers"]] == [
        "approval",
        "not before",
    ]
    [segment] = row["segments"]
    assert (segment["state"], segment["until"]) == ("announced", None)
    assert row["step"]["since"] == segment["from"]
    assert rows(service, places=("rack=r0", "cluster=c1"))["hosts"] == []


def test_hosts_are_forecast_by_the_file_until_the_first_is_done() -> None:
    service = world_of()
    start(service, '[campaign.expect]\ntypical = "20m"\n' + TWO_AT_ONCE)
    found = [by_name(rows(service))[f"h000{number}"] for number in range(8)]
    begins = [parse_instant(host["forecast"]["from"]) for host in found]
    assert begins[0] == parse_instant(found[0]["not_before"])
    assert begins[1:] == sorted(begins[1:])
    first = found[0]["forecast"]
    assert parse_instant(first["until"]) - begins[0] == 20 * MINUTE
    # The expected end of the campaign needs the work on a host.
    assert (
        service.read(
            lambda reader: expected_of(reader, campaign(service), now=service.now).end()
        )
        is None
    )
    while not campaign(service).done:
        service.advance("1m")
    measured = by_name(rows(service))["h0007"]["forecast"]
    assert measured["from"] != found[7]["forecast"]["from"]


def test_segments_follow_the_history_of_each_host() -> None:
    service = world_of(2)
    start(service, TWO_AT_ONCE)
    service.advance("3h")
    row = by_name(rows(service))["h0000"]
    segments = row["segments"]
    assert row["state"] == "done"
    assert [segment["state"] for segment in segments][:1] == ["announced"]
    assert {"impacting", "recovering"} <= {segment["state"] for segment in segments}
    for before, after in pairwise(segments):
        assert before["until"] == after["from"]
    assert all(segment["until"] for segment in segments)
    late = parse_instant(segments[-1]["from"])
    shown = by_name(rows(service, first=late))["h0000"]["segments"]
    assert shown == segments[-1:]


def test_work_on_a_host_with_many_scopes_ends() -> None:
    """Its history has some hundred entries before the one of the impact."""
    service = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet([{f"s{number}": 0 for number in range(110)}]),
    )
    start(service, TWO_AT_ONCE)
    service.advance("3h")
    [row] = rows(service)["hosts"]
    assert row["state"] == "done"
    shown = [segment["state"] for segment in row["segments"]]
    assert shown[0] == "announced"
    assert {"impacting", "recovering"} <= set(shown)
    assert all(segment["until"] for segment in row["segments"])
    assert one(service, "h0000")["usual"]["step_seconds"]["recovering"] > 0


def test_work_whose_history_is_too_long_ends_as_the_record_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(host_phases, "ENTRIES_MAX", 5)
    service = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet([{f"s{number}": 0 for number in range(9)}]),
    )
    start(service, TWO_AT_ONCE)
    service.advance("3h")
    [row] = rows(service)["hosts"]
    assert row["state"] == "done"
    assert row["segments"][-1]["until"] == format_instant(
        service.operations()[0].ended_at
    )


def test_hosts_without_operations_are_listed_once_for_a_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rollouts, "PAGE", 2)
    service = world_of()
    reads = 0
    read_all = campaign_courses.unplanned

    def counted(reader: Reader, record: CampaignRecord) -> list[Attempt]:
        nonlocal reads
        reads += 1
        return read_all(reader, record)

    service.plane.bound_turns(lambda: True)
    start(service, TWO_AT_ONCE, is_settled=False)
    monkeypatch.setattr(campaign_courses, "unplanned", counted)
    hosts = rows(service)["hosts"]
    assert [host["host"] for host in hosts] == [f"h000{number}" for number in range(8)]
    early = [host for host in hosts if host["operation"] and not host["attempts"]]
    assert [host["position"] for host in early] == [3, 4, 5, 6, 7, 8]
    assert {(host["state"], host["vms"]) for host in early} == {("planned", 1)}
    assert reads == 1
    only_done = rows(service, states=frozenset({HostState.DONE}))["hosts"]
    assert only_done == []


def test_waiting_row_names_the_host_that_it_waits_for() -> None:
    service = World(
        store=MemoryStore,
        driver=SimulatedDriver(),
        fleet=fleet([{"first": 0}, {"one": 0}, {"one": 1}]),
    )
    start(service, TWO_AT_ONCE)
    # One host is in flight until the first one is done, then two.
    while by_name(rows(service))["h0001"]["state"] != "announced":
        service.advance("1m")
    held = by_name(rows(service))["h0002"]
    assert held["state"] == "planned"
    [reason] = [blocker for blocker in held["blockers"] if blocker["operation"]]
    assert (reason["kind"], reason["scope"], reason["host"]) == (
        "scope in use",
        "one",
        "h0001",
    )


def test_states_select_rows_without_a_search_of_all_hosts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    service = world_of()
    start(service, TWO_AT_ONCE)
    monkeypatch.setattr(campaign_rows, "EXAMINED_MAX", 2)
    flying = rows(service, states=frozenset({HostState.ANNOUNCED, HostState.FAILED}))
    assert [host["host"] for host in flying["hosts"]] == ["h0000"]
    assert flying["next"] is None
    planned = rows(service, states=frozenset({HostState.PLANNED}))
    assert [host["host"] for host in planned["hosts"]] == ["h0001"]
    assert planned["next"] == "h0001"
    following = rows(
        service, states=frozenset({HostState.PLANNED}), after=planned["next"]
    )
    assert [host["host"] for host in following["hosts"]] == ["h0002", "h0003"]


def test_skipped_host_is_shown_with_the_reason() -> None:
    service = world_of()
    start(service, TWO_AT_ONCE)
    steer(
        service, lambda work: campaigns.skip(work, "bios", ["h0007"]), reason="broken"
    )
    row = by_name(rows(service, places=("rack=r3",)))["h0007"]
    assert row["state"] == "skipped"
    assert "broken" in row["note"]


def test_host_has_its_vms_with_their_courses_and_pauses() -> None:
    service = world_of(2)
    start(service, TWO_AT_ONCE)
    waiting = one(service, "h0000")
    assert [vm["course"] for vm in waiting["vm_list"]] == ["waiting"]
    assert waiting["usual"] is None
    service.advance("3h")
    found = one(service, "h0000")
    [vm] = found["vm_list"]
    assert (vm["vm"], vm["tenant"], vm["course"]) == ("s0-0", "shop", "done")
    assert vm["pause_seconds"] > 0
    assert found["usual"]["hosts"] == 2
    assert found["usual"]["work_seconds"] > 0
    with pytest.raises(NotFoundError, match="has no host 'h0009'"):
        one(service, "h0009")


def test_failed_host_shows_what_the_driver_said() -> None:
    driver = SimulatedDriver()
    driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, vm="s0-0", times=3))
    service = world_of(2, driver=driver)
    start(service, TWO_AT_ONCE)
    service.advance("3h")
    found = one(service, "h0000")
    assert found["state"] == "failed"
    assert found["note"]
    assert {entry["what"] for entry in found["output"]} == {"driver failed"}
    assert all(entry["text"] for entry in found["output"])


def test_host_that_left_the_fleet_counts_without_a_place() -> None:
    service = world_of(4)
    start(service, TWO_AT_ONCE)
    service.advance("6h")

    def forget(reader: Reader) -> dict[str, Any]:
        class Without:
            """A reader of the same store, without a host."""

            def get(self, kind: type[Any], key: str) -> Any:
                is_gone = kind is Host and key == "h0003"
                return None if is_gone else reader.get(kind, key)

            def __getattr__(self, name: str) -> Any:
                return getattr(reader, name)

        return tree(service, cast("Any", Without()))

    found = service.read(forget)
    assert {cluster["cluster"]: cluster["hosts"] for cluster in found["clusters"]} == {
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
