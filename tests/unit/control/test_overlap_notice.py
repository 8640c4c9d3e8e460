"""Campaigns with `overlap_notice` announce further fault domains, and start one."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.control.requests import campaign_changes, campaigns, failures
from forewarn.instants import MINUTE, Micros
from forewarn.protocol.operations import Operation, OperationState
from forewarn.store.sqlite import SqliteStore
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    in_work,
    start,
    steer,
)
from tests.support.rollouts import check_of, name_of, of_host, world_of
from tests.support.worlds import CrashError, World

IN_WORK = {OperationState.IMPACTING, OperationState.RECOVERING}


def budget(overlap: int, in_flight: int = 8) -> str:
    return (
        f"[campaign.budget]\nin_flight = {in_flight}\noverlap_notice = {overlap}\n"
        + ONE_STAGE
    )


def open_ones(world: World) -> list[Operation]:
    return [
        operation
        for operation in world.operations()
        if operation.scopes and not operation.ended_at
    ]


def domains(
    hosts: Sequence[dict[str, int]], operations: Sequence[Operation]
) -> dict[str, set[int]]:
    """Return the fault domains of the hosts of some operations, by scope."""
    found = defaultdict[str, set[int]](set)
    for operation in operations:
        for scope, domain in hosts[int(operation.host.removeprefix("h"))].items():
            found[scope].add(domain)
    return found


def play(world: World, hosts: Sequence[dict[str, int]], overlap: int) -> Micros:
    """Play a campaign to its end, judge each minute, and return how long it took."""
    began = world.now
    while campaign(world).state is not CampaignState.DONE:
        assert world.now < began + len(hosts) * 2 * 60 * MINUTE, "it does not end"
        noticed = open_ones(world)
        for scope, found in domains(hosts, noticed).items():
            assert len(found) <= overlap + 1, f"{scope}: {found}"
        working = [operation for operation in noticed if operation.state in IN_WORK]
        for scope, found in domains(hosts, working).items():
            assert len(found) <= 1, f"{scope} in work: {found}"
        world.advance("1m")
    return world.now - began


THREE = [{"web": 0}, {"web": 1}, {"web": 2}, {"web": 1}]


def after_the_first(overlap: int) -> World:
    """Return a world whose campaign has one host done, so that two can be in flight."""
    world = world_of([{"first": 0}, *THREE])
    start(world, budget(overlap))
    while campaign(world).done == 0:
        world.advance("1m")
    return world


def test_without_overlap_one_domain_is_announced() -> None:
    assert announced(after_the_first(0)) == [name_of(1)]


def test_with_overlap_the_next_domain_is_announced_beside_the_first() -> None:
    world = after_the_first(1)
    assert announced(world) == [name_of(1), name_of(2)]


def test_guard_lets_the_second_domain_start_after_the_first() -> None:
    world = after_the_first(1)
    first, second = of_host(world, 1), of_host(world, 2)
    world.advance("16m")
    assert world.operation(first.operation_id).state in IN_WORK
    assert world.operation(second.operation_id).state is OperationState.READY
    assert any(first.operation_id in why for why in world.explain(second.operation_id))
    while not world.operation(first.operation_id).ended_at:
        world.advance("10s")
    # It needs no new notice.
    assert world.operation(second.operation_id).state is OperationState.IMPACTING


def test_host_beyond_the_overlap_names_the_domains_in_its_way() -> None:
    world = world_of([{"first": 0}, {"second": 0}, {"third": 0}, *THREE])
    start(world, budget(1))
    while len(in_work(world)) < 3 or campaign(world).ramp < 4:
        world.advance("1m")
    last = of_host(world, 5)
    assert last.state is OperationState.PLANNED
    reasons = world.explain(last.operation_id)
    for domain in (0, 1):
        [why] = [
            reason
            for reason in reasons
            if reason.startswith(f"fault domain {domain} of")
        ]
        assert why.endswith(", and only 2 at a time are allowed (overlap_notice)")
    # When a domain is free again, the next one follows at once.
    while not of_host(world, 3).ended_at:
        world.advance("1m")
    assert of_host(world, 5).state is not OperationState.PLANNED


def test_overlap_saves_the_notice_of_each_domain() -> None:
    hosts = [{"web": domain} for domain in range(5)]
    took: list[Micros] = []
    for overlap in (0, 1):
        world = world_of(hosts)
        start(world, budget(overlap))
        took.append(play(world, hosts, overlap))
    assert took[1] <= took[0] - 3 * 10 * MINUTE


def test_domain_that_is_down_counts() -> None:
    world = world_of([{"web": 0}, {"web": 1}, {"web": 2}, {"other": 0}])
    world.order(lambda work: failures.fail_vm(work, "web-0", None))
    world.settle()
    start(world, budget(1) + "[campaign.tolerance]\nfailures = 3\nin_a_row = 3\n")
    world.advance("10m")
    # The failed VM has domain 0, and domain 1 is announced as well.
    assert name_of(2) not in in_work(world)


@pytest.mark.parametrize("overlap", [1, 2])
def test_check_of_the_store_accepts_it(overlap: int, tmp_path: Path) -> None:
    file = tmp_path / "forewarn.db"
    hosts = [{"first": 0}, *({"web": domain} for domain in range(4))]
    world = world_of(hosts, store=lambda: SqliteStore(file))
    start(world, budget(overlap))
    for _ in range(6):
        world.advance("12m")
        assert check_of(world, file) == []
        file.with_suffix(".copy").unlink()


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["web", "db"]), st.integers(0, 3), min_size=1, max_size=2
        ),
        min_size=2,
        max_size=8,
    ),
    st.integers(0, 3),
    st.integers(1, 8),
)
def test_any_campaign_keeps_its_overlap_and_ends(
    hosts: list[dict[str, int]], overlap: int, in_flight: int
) -> None:
    world = world_of(hosts)
    start(world, budget(overlap, in_flight))
    play(world, hosts, overlap)


def set_overlap(world: World, overlap: int) -> None:
    steer(
        world,
        lambda work: campaign_changes.change(
            work,
            campaigns.find_open(work, "bios"),
            {"overlap_notice": str(overlap)},
        ),
    )


def test_a_larger_overlap_announces_hosts_that_were_passed_over() -> None:
    world = after_the_first(0)
    assert announced(world) == [name_of(1)]
    set_overlap(world, 1)
    assert announced(world) == [name_of(1), name_of(2)]


def test_after_a_smaller_overlap_the_announced_go_on_and_no_more_follow(
    tmp_path: Path,
) -> None:
    file = tmp_path / "forewarn.db"
    world = world_of([{"first": 0}, *THREE], store=lambda: SqliteStore(file))
    start(world, budget(1))
    while campaign(world).done == 0:
        world.advance("1m")
    assert announced(world) == [name_of(1), name_of(2)]
    set_overlap(world, 0)
    assert announced(world) == [name_of(1), name_of(2)]
    assert check_of(world, file) == []
    began = world.now
    while campaign(world).done < 3:
        assert world.now < began + 4 * 60 * MINUTE
        assert of_host(world, 3).state is OperationState.PLANNED
        working = [
            operation for operation in open_ones(world) if operation.state in IN_WORK
        ]
        assert len(domains([{"first": 0}, *THREE], working).get("web", set())) <= 1
        world.advance("1m")
    world.advance("3h")
    assert campaign(world).state is CampaignState.DONE
    world.store.close()


def test_hosts_passed_over_with_a_larger_overlap_are_found_after_it_came_back() -> None:
    world = world_of([{"a": 0}, {"b": 0}, {"c": 0}, *({"web": n} for n in range(4))])
    start(world, budget(1))
    while len(in_work(world)) < 2 or campaign(world).ramp < 4:
        world.advance("1m")
    world.advance("2m")
    passed = [
        operation
        for operation in world.operations()
        if operation.held_by and not operation.scopes
    ]
    assert passed, "no host was passed over"
    set_overlap(world, 0)
    set_overlap(world, 3)
    world.settle()
    assert not [
        operation
        for operation in world.operations()
        if operation.held_by and not operation.scopes
    ]


@pytest.mark.parametrize("overlaps", [(0, 2), (2, 0)])
def test_change_survives_a_crash_at_each_commit_publication_and_call(
    overlaps: tuple[int, int], tmp_path: Path
) -> None:
    before, after = overlaps
    wanted: list[str] = []
    at = 0
    for at in count():
        file = tmp_path / f"{at}.db"
        world = world_of(
            [{"first": 0}, *THREE], store=lambda file=file: SqliteStore(file)
        )
        start(world, budget(before))
        while campaign(world).done == 0:
            world.advance("1m")
        passed = sum(world.passed.values())
        if at:
            world.crash_at = lambda _place, _count, it=world, last=passed + at: (
                sum(it.passed.values()) == last
            )
        has_crashed = False
        try:
            set_overlap(world, after)
        except CrashError:
            has_crashed = True
            world.crash_at = lambda _place, _count: False
            world.restart()
            world.settle()
            if campaign(world).budget.overlap_notice != after:
                set_overlap(world, after)
        found = announced(world)
        world.store.close()
        wanted = wanted or found
        assert found == wanted, f"after a crash at step {at}"
        if at and not has_crashed:
            break
    assert at > 1
