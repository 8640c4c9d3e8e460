"""Test the destinations of a VM, and the reasons why it has none."""

from dataclasses import replace

import pytest

from forewarn.fleet.model import (
    Cordon,
    Host,
    HostState,
    Scope,
    ScopeKind,
    Vm,
    VmState,
    taken_by,
)
from forewarn.fleet.placement import DONE, Candidate, choose_host, why_none
from forewarn.protocol.actors import operator
from forewarn.protocol.blockers import NoCapacity
from forewarn.protocol.no_place import NoPlace, Unfit, UnfitHosts
from forewarn.wording.operators import reason

VM = Vm(
    name="v",
    wire_name="v",
    host="here",
    scope="s",
    tenant="t",
    view="s",
    fault_domain=1,
    vcpu=4,
    memory=8,
    vm_id="an id",
)
SET = Scope(name="s", tenant="t", kind=ScopeKind.AVAILABILITY_SET)
SCALE_SET = Scope(name="s", tenant="t", kind=ScopeKind.SCALE_SET)


def candidate(
    name: str,
    *,
    load: int = 0,
    domains: frozenset[int] = frozenset(),
    rack_excess: int = 0,
    busy: bool = False,
    turn: int = 0,
    zone: str = "1",
    pool: str = "amd",
    capacity: int | None = 10,
    vcpu: tuple[int, int | None] = (0, None),
    memory: tuple[int, int | None] = (0, None),
    state: HostState = HostState.UP,
    is_cordoned: bool = False,
) -> Candidate:
    """Return a host. Its vCPUs and memory are given as used ones and limit."""
    cordon = Cordon(by=operator("alice"), reason="", at=1)
    host = Host(
        name=name,
        zone=zone,
        pool=pool,
        capacity=capacity,
        vcpu=vcpu[1],
        memory=memory[1],
        state=state,
        cordons=(cordon,) if is_cordoned else (),
    )
    return Candidate(
        host=host,
        load=load,
        vcpu=vcpu[0],
        memory=memory[0],
        domains=domains,
        rack_excess=rack_excess,
        busy=busy,
        turn=turn,
    )


ORIGIN = Host(name="here", zone="1", pool="amd")
HERE = candidate("here", capacity=None)
OWN = frozenset({1})
OTHER = frozenset({0})
BOTH = frozenset({0, 1})


def test_host_with_a_silent_relay_is_the_last_choice_or_none() -> None:
    silent = replace(candidate("a"), silent=True)
    heard = candidate("b", load=9)
    assert choose_host(VM, SET, origin=ORIGIN, candidates=[silent, heard]) == "b"
    assert choose_host(VM, SET, origin=ORIGIN, candidates=[silent]) == "a"
    refused = replace(silent, needs_relay=True)
    assert choose_host(VM, SET, origin=ORIGIN, candidates=[refused]) is None
    why = why_none(VM, SET, origin=ORIGIN, candidates=[HERE, refused])
    assert why is not None
    assert reason(NoCapacity(vm="v", why=why)) == (
        "there is no host with capacity for v: it is on here; "
        "with a silent relay (`forewarn relay list`): a"
    )


@pytest.mark.clause("2.4", "6.3")
def test_hosts_that_were_ruled_out_before_are_named_too() -> None:
    why = why_none(
        VM,
        SET,
        origin=ORIGIN,
        candidates=[HERE, candidate("a", vcpu=(1, 4))],
        too_small={"b": Unfit.VCPU, "c": Unfit.BUSY},
    )
    assert why is not None
    assert reason(NoCapacity(vm="v", why=why)) == (
        "there is no host with capacity for v: it is on here;"
        " in maintenance, or announced: c; with too few free vCPUs: b, a"
    )


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([], None),
        ([HERE], None),
        ([HERE, candidate("a")], "a"),
        ([candidate("a", state=HostState.DOWN), candidate("b")], "b"),
        ([candidate("a", busy=True), candidate("b")], "b"),
        ([candidate("a", is_cordoned=True), candidate("b", load=9)], "b"),
        ([candidate("a", load=10), candidate("b", load=9)], "b"),
        ([candidate("a", domains=OTHER), candidate("b", load=9)], "b"),
        ([candidate("a", load=2, domains=BOTH)], None),
        # Done hosts come first, then those outside of the list, empty ones that wait, and
        # the one that comes latest.
        ([candidate("a", load=9, turn=DONE), candidate("b", domains=OWN)], "a"),
        ([candidate("a", load=9), candidate("b", turn=1, domains=OWN)], "a"),
        ([candidate("a", turn=9), candidate("b", load=1, turn=1)], "a"),
        ([candidate("a", load=9, turn=1), candidate("b", load=1, turn=2)], "a"),
        # Its own fault domain is worth more than room, and than emptiness.
        ([candidate("a"), candidate("b", load=9, domains=OWN)], "b"),
        # An empty host is worth more than one with more room.
        ([candidate("a", load=1, capacity=None), candidate("b", capacity=2)], "b"),
        ([candidate("a", load=3), candidate("b", load=2)], "b"),
        ([candidate("a", load=3), candidate("b", load=1, capacity=None)], "b"),
        ([candidate("b"), candidate("a"), candidate("c")], "a"),
        # The same zone comes first, but another is better than none.
        ([candidate("a", zone="2", domains=OWN), candidate("b", load=9)], "b"),
        ([candidate("a", zone="2", turn=DONE), candidate("b", load=9)], "b"),
        ([HERE, candidate("a", zone="2")], "a"),
        # Only hosts of its pool can take it.
        ([candidate("a", pool=""), candidate("b", pool="intel")], None),
        ([candidate("a", pool="intel"), candidate("b", load=9, zone="2")], "b"),
        # The spread over racks must not become worse; it may stay or become better.
        ([candidate("a", rack_excess=1), candidate("b", load=9)], "b"),
        ([candidate("a", rack_excess=1, domains=OWN)], None),
        ([candidate("a"), candidate("b", load=9, rack_excess=-1)], "a"),
        # It must fit, to the last vCPU and MiB.
        ([candidate("a", vcpu=(5, 8)), candidate("b", vcpu=(4, 8))], "b"),
        ([candidate("a", memory=(9, 16)), candidate("b", memory=(8, 16))], "b"),
        ([candidate("a", vcpu=(0, 0)), candidate("b", memory=(0, 0))], None),
        # The host with the largest free part of its scarcest limit comes first.
        (
            [
                candidate("a", vcpu=(0, 8), memory=(80, 100)),
                candidate("b", vcpu=(60, 100), memory=(50, 100)),
                candidate("c", load=9, vcpu=(10, 20), memory=(50, 100)),
            ],
            "b",
        ),
        ([candidate("a", vcpu=(1, 8)), candidate("b", load=0)], "b"),
    ],
)
def test_the_best_host_is_chosen(
    candidates: list[Candidate], expected: str | None
) -> None:
    assert choose_host(VM, SET, origin=ORIGIN, candidates=candidates) == expected


@pytest.mark.clause("7.2")
def test_scale_set_stays_in_the_zone() -> None:
    candidates = [candidate("a", zone="2"), candidate("b", zone="")]
    assert choose_host(VM, SCALE_SET, origin=ORIGIN, candidates=candidates) is None
    assert (
        choose_host(
            VM, SCALE_SET, origin=replace(ORIGIN, zone=""), candidates=candidates
        )
        == "b"
    )


def test_missing_destination_host_is_explained() -> None:
    candidates = [
        HERE,
        candidate("a", state=HostState.DOWN),
        candidate("b", busy=True),
        candidate("c", load=10),
        candidate("d", domains=OTHER),
        candidate("e", zone="2"),
        candidate("g", pool="intel"),
        candidate("r", rack_excess=2),
        candidate("h", vcpu=(1, 4)),
        candidate("i", memory=(1, 8)),
        *(candidate(f"f{n}", busy=True) for n in range(6)),
    ]
    why = why_none(VM, SCALE_SET, origin=ORIGIN, candidates=candidates)
    assert why is not None
    assert why.on_host == "here"
    assert (
        UnfitHosts(why=Unfit.BUSY, hosts=("b", "f0", "f1", "f2", "f3"), more=2)
        in why.unfit
    )
    assert reason(NoCapacity(vm="v", why=why)) == (
        "there is no host with capacity for v: it is on here; down: a;"
        " in maintenance, or announced: b, f0, f1, f2, f3 and 2 more;"
        " full: c; used by another fault domain of its scope: d;"
        " in another zone than the VMs of its scale set: e; in another pool: g;"
        " in a rack with more VMs of its scope: r;"
        " with too few free vCPUs: h; with too little free memory: i"
    )


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([], "there is no host with capacity for v: there are no other hosts"),
        (
            [HERE],
            "there is no host with capacity for v: it is on here; there are no other hosts",
        ),
    ],
)
def test_reason_is_short_for_few_hosts(
    candidates: list[Candidate], expected: str
) -> None:
    why = why_none(VM, SET, origin=ORIGIN, candidates=candidates)
    assert why is not None
    assert reason(NoCapacity(vm="v", why=why)) == expected


def test_no_reason_is_given_if_a_host_is_available() -> None:
    candidates = [candidate("a", busy=True), candidate("b")]
    assert why_none(VM, SET, origin=ORIGIN, candidates=candidates) is None


@pytest.mark.parametrize(
    ("others", "end"),
    [
        (
            NoPlace(others_are_full=True),
            "full, down, cordoned or in maintenance: all others",
        ),
        (
            NoPlace(looked_at_most=64),
            "not checked: hosts with less capacity than these 64",
        ),
    ],
)
def test_non_candidate_hosts_are_named_last(others: NoPlace, end: str) -> None:
    assert reason(NoCapacity(vm="v", why=others)).endswith(f"; {end}")


def test_vm_uses_capacity_on_its_host_and_on_the_one_to_which_it_moves() -> None:
    assert taken_by(VM) == {"here"}
    assert taken_by(replace(VM, moving_to="there")) == {"here", "there"}
    assert taken_by(replace(VM, state=VmState.DELETED)) == taken_by(None) == frozenset()
