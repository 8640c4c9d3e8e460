"""Plans of random fleets, judged by an independent checker."""

import contextlib
from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.campaigns.fleet_map import HostRow
from forewarn.campaigns.model import (
    Amount,
    Budget,
    Campaign,
    Expectation,
    GroupBudget,
    Impact,
    Order,
    Selection,
    Stage,
)
from forewarn.campaigns.part_blackouts import PartBlackout
from forewarn.campaigns.planner import CampaignPlan, Terms, plan_campaign
from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.model import HostState, ScopeKind, VmState
from forewarn.fleet.windows import Window
from forewarn.instants import DAY, HOUR, MINUTE, format_instant
from forewarn.protocol.errors import RefusedError
from tests.support.campaign_checker import Fleet, VmRow, check, selected, why_refused

NOW = 20_000 * DAY + 9 * HOUR

TERMS = Terms(
    notices=dict.fromkeys(Impact, 15 * MINUTE), speed=2.0, recovery=10 * MINUTE
)

AMOUNTS = st.one_of(
    st.builds(Amount, value=st.integers(1, 5)),
    st.builds(Amount, value=st.integers(1, 100), is_percent=st.just(value=True)),
)


@st.composite
def fleets(draw: st.DrawFn) -> Fleet:
    """Return a small fleet, in which little fits."""
    hosts = draw(
        st.lists(
            st.builds(
                HostRow,
                name=st.just(""),
                state=st.sampled_from([HostState.UP] * 9 + [HostState.DOWN]),
                zone=st.sampled_from(["", "z1", "z2"]),
                cluster=st.sampled_from(["c1", "c2"]),
                rack=st.sampled_from(["", "r1", "r2", "r3"]),
                pool=st.sampled_from(["", "", "p1"]),
                capacity=st.sampled_from([None, 2, 4, 8]),
                vcpu=st.none(),
                memory=st.sampled_from([None, None, 8, 16]),
                labels=st.sampled_from([(), (("model", "m1"),), (("model", "m2"),)]),
                last=st.sampled_from([False, False, False, True]),
            ),
            min_size=1,
            max_size=10,
        )
    )
    hosts = [row._replace(name=f"h{at}") for at, row in enumerate(hosts)]
    names = st.sampled_from([row.name for row in hosts])
    vms = draw(
        st.lists(
            st.builds(
                VmRow,
                host=names,
                scope=st.sampled_from(["s0", "s1", "s2", "s3", "s4"]),
                tenant=st.just(""),
                fault_domain=st.integers(0, 2),
                state=st.sampled_from([VmState.RUNNING] * 5 + list(VmState)),
                moving_to=st.one_of(st.just(""), st.just(""), names),
                vcpu=st.none(),
                memory=st.sampled_from([None, 1, 4, 9]),
                movable=st.sampled_from([True] * 9 + [False]),
            ),
            max_size=24,
        )
    )
    owned = [vm._replace(tenant=f"t{int(vm.scope[1]) % 2}") for vm in vms]
    busy = draw(st.sets(names, max_size=1))
    return Fleet(hosts, owned, {"s4": ScopeKind.SCALE_SET}, frozenset(busy))


BUDGETS = st.builds(
    Budget,
    in_flight=AMOUNTS,
    unavailable=st.none() | AMOUNTS,
    tenant_vms=st.none() | AMOUNTS,
    overlap_notice=st.integers(0, 2),
    by=st.lists(
        st.builds(
            GroupBudget,
            label=st.sampled_from(["zone", "cluster", "rack", "pool", "model", "none"]),
            most=AMOUNTS,
        ),
        max_size=3,
        unique_by=lambda budget: budget.label,
    ).map(tuple),
)

CAMPAIGNS = st.builds(
    Campaign,
    name=st.just("work"),
    reason=st.just("CVE-2026-1234"),
    impact=st.sampled_from(Impact),
    order=st.sampled_from([order for order in Order if order is not Order.LISTED]),
    select=st.just(Selection(all=True)),
    budget=BUDGETS,
    stages=st.lists(
        st.builds(Stage, hosts=AMOUNTS, soak=st.integers(0, 3).map(lambda n: n * HOUR)),
        max_size=3,
    ).map(tuple),
    windows=st.lists(
        st.builds(
            Window,
            days=st.sampled_from([(0, 1, 2, 3, 4, 5, 6), (5,), (0, 1)]),
            start=st.integers(0, 24 * 60 - 1),
            length=st.integers(1, 30).map(lambda n: n * HOUR),
        ),
        max_size=2,
    ).map(tuple),
    expect=st.sampled_from(
        [
            Expectation(),
            Expectation(typical=20 * MINUTE, slow=3 * HOUR),
            Expectation(typical=5 * MINUTE, slow=5 * MINUTE),
        ]
    ),
)


def blackout(begins: int, hours: int) -> Blackout:
    """Return a blackout that begins some hours after NOW."""
    opens, closes = (
        format_instant(NOW + at * HOUR).removesuffix("Z")
        for at in (begins, begins + hours)
    )
    return Blackout(name="freeze", begins=opens, ends=closes)


BLACKOUTS = st.builds(blackout, st.integers(-2, 12), st.integers(1, 30))
PARTS = st.builds(
    PartBlackout,
    time=BLACKOUTS,
    places=st.sampled_from(
        [
            (("rack", "r1"),),
            (("rack", "r1"), ("rack", "r2")),
            (("cluster", "c1"), ("model", "m1")),
            (("zone", "z1"), ("cluster", "c2"), ("cluster", "c1")),
        ]
    ),
)
CLOSED = st.builds(
    replace,
    st.just(TERMS),
    blackouts=st.lists(BLACKOUTS, max_size=1).map(tuple),
    parts=st.lists(PARTS, max_size=2).map(tuple),
)


def planned(campaign: Campaign, fleet: Fleet, terms: Terms = TERMS) -> CampaignPlan:
    return plan_campaign(campaign, fleet.mapped(), terms=terms, now=NOW)


@given(fleets(), CAMPAIGNS, CLOSED)
def test_plan_of_any_fleet_keeps_every_rule(
    fleet: Fleet, campaign: Campaign, terms: Terms
) -> None:
    hosts = selected(fleet, campaign)
    nothing_left = all(any(why_refused(host, fleet, campaign)) for host in hosts)
    if nothing_left:
        with pytest.raises(RefusedError, match="selected hosts can be done"):
            planned(campaign, fleet, terms)
        return
    if campaign.windows and not any(
        window.length >= campaign.expect.slow for window in campaign.windows
    ):
        with contextlib.suppress(RefusedError):
            # Windows that overlap can be long enough together.
            check(planned(campaign, fleet, terms), fleet, terms)
        return
    plan = planned(campaign, fleet, terms)
    check(plan, fleet, terms)
    again = planned(campaign, fleet, terms)
    assert (again.digest, again.hosts) == (plan.digest, plan.hosts)
    assert again.typical == plan.typical


SMALL = Fleet(
    [HostRow(name=f"h{at}", rack=f"r{at // 2}", capacity=4) for at in range(6)],
    [VmRow(f"h{at}", "db", "shop", at % 3) for at in range(6)],
)
CAMPAIGN = Campaign(
    name="bios",
    reason="CVE-2026-1234",
    impact=Impact.REBOOT,
    select=Selection(all=True),
    budget=Budget(
        in_flight=Amount(value=4),
        by=(GroupBudget(label="rack", most=Amount(value=1)),),
    ),
    stages=(Stage(hosts=Amount(value=1), soak=HOUR),),
)


def test_fault_domains_of_a_scope_bind() -> None:
    plan = planned(CAMPAIGN, SMALL)
    check(plan, SMALL, TERMS)
    # h0 is alone in its stage and set; then each fault domain has two hosts in two racks.
    assert plan.bounds[0].subject == "db"
    assert plan.bounds[0].rounds == 3
    assert plan.hosts[0] == "h0"


def broken(plan: CampaignPlan, change: str) -> CampaignPlan:
    """Return a plan that breaks one rule."""
    match change:
        case "two fault domains in a set":
            return replace(plan, sets=(0,) * len(plan.sets))
        case "a host is missing":
            return replace(
                plan, hosts=plan.hosts[1:], vms=plan.vms[1:], sets=plan.sets[1:]
            )
        case "a host is repeated":
            return replace(plan, hosts=(plan.hosts[0], *plan.hosts[:-1]))
        case "all at once":
            first = plan.typical.begins[0]
            last = plan.typical.ends[0]
            count = len(plan.hosts)
            now = replace(
                plan.typical,
                begins=array("q", [first] * count),
                ends=array("q", [last] * count),
            )
            return replace(plan, typical=now)
        case _:
            return replace(plan, least_sets=len(plan.hosts) + 1)


@pytest.mark.parametrize(
    "change",
    [
        "two fault domains in a set",
        "a host is missing",
        "a host is repeated",
        "all at once",
        "a bound that is too high",
    ],
)
def test_checker_finds_a_broken_plan(change: str) -> None:
    with pytest.raises(AssertionError):
        check(broken(planned(CAMPAIGN, SMALL), change), SMALL, TERMS)
