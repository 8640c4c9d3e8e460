"""`campaign set` changes each term of a running campaign, from the next decision on."""

import pytest

from forewarn.campaigns.lifecycle import CampaignState
from forewarn.campaigns.record import CampaignRecord
from forewarn.control.requests import campaign_changes, campaigns
from forewarn.instants import HOUR, MINUTE, format_instant
from forewarn.protocol.errors import BadRequestError, RefusedError
from forewarn.protocol.notes import Withdrawn
from forewarn.protocol.operations import OperationState
from forewarn.wording import operators
from tests.support.campaigns import (
    ONE_STAGE,
    announced,
    campaign,
    ended,
    in_work,
    start,
    steer,
    waits_for,
)
from tests.support.rollouts import world_of
from tests.support.worlds import World
from tests.unit.control.test_campaign_budgets import world

EXPECT = '[campaign.expect]\ntypical = "20m"\nslow = "30m"\n'
FOUR = "[campaign.budget]\nin_flight = 4\n"


def of(hosts: int) -> World:
    return world_of([{f"s{number}": 0} for number in range(hosts)])


def change(service: World, **values: str) -> CampaignRecord:
    return steer(
        service, lambda work: campaign_changes.change(work, campaign(service), values)
    )


def at(service: World, hours: float, length: str = "4h") -> str:
    """Return a daily window that opens after some hours, in UTC."""
    opens = format_instant(service.now + round(hours * HOUR))[11:16]
    return f"{opens} {length} UTC"


def table(line: str) -> str:
    start_, length, _ = line.split()
    return f'[[campaign.window]]\nstart = "{start_}"\nlength = "{length}"\n'


def ramp_up(service: World) -> None:
    """Let time pass until four hosts could be in flight, and one is."""
    for _ in range(200):
        if campaign(service).ramp == 4 and in_work(service):
            return
        service.advance("1m")
    raise AssertionError(waits_for(service))


def test_a_window_that_is_open_now_lets_hosts_begin_at_once() -> None:
    service = of(2)
    closed = at(service, 12)
    start(service, table(closed) + EXPECT + ONE_STAGE)
    assert announced(service) == []
    change(service, window=at(service, -1))
    assert len(announced(service)) == 1


def test_without_the_last_window_hosts_begin_at_any_time() -> None:
    service = of(2)
    closed = at(service, 12)
    start(service, table(closed) + EXPECT + ONE_STAGE)
    change(service, remove_window=closed)
    assert campaign(service).windows == ()
    assert len(announced(service)) == 1


def test_hosts_that_miss_the_new_windows_are_withdrawn_without_impact() -> None:
    service = of(2)
    service.vm("s0-0").get()
    open_ = at(service, -1)
    start(service, table(open_) + EXPECT + ONE_STAGE)
    assert announced(service)
    change(service, window=at(service, 12), remove_window=open_)
    assert announced(service) == []
    assert service.vm("s0-0").get().events == []
    (withdrawn,) = ended(service, OperationState.CANCELLED)
    assert isinstance(withdrawn.note, Withdrawn)
    assert operators.note(withdrawn.note).startswith(
        "the changed windows of campaign bios do not allow it; the host waits"
    )
    assert campaign(service).withdrawn == 1
    service.advance("11h")
    assert not any(operation.started_at for operation in service.operations())
    service.advance("3h")
    assert any(operation.started_at for operation in service.operations())


def test_hosts_that_fit_into_the_new_windows_stay_announced() -> None:
    service = of(2)
    open_ = at(service, -1)
    start(service, table(open_) + EXPECT + ONE_STAGE)
    before = announced(service)
    change(service, window=at(service, -1, "6h"), remove_window=open_)
    assert announced(service) == before
    assert campaign(service).withdrawn == 0


def test_a_change_of_a_budget_withdraws_no_host_that_has_missed_its_window() -> None:
    service = of(2)
    start(service, table(at(service, -1, "2h")) + EXPECT + ONE_STAGE)
    before = announced(service)
    assert before
    service.step_clock("3h")
    change(service, in_flight="2")
    assert announced(service) == before


def test_a_budget_of_a_group_counts_from_the_next_decision() -> None:
    service = world(9, per_rack=9)
    start(service, FOUR + ONE_STAGE)
    change(service, by="rack=1")
    ramp_up(service)
    assert len(in_work(service)) == 1
    # A host that waits for the budget is looked at again, and not only at the next end.
    change(service, by="rack=2")
    assert len(in_work(service)) == 2
    change(service, by="rack=none")
    assert campaign(service).budget.by == ()
    assert len(in_work(service)) > 2


def test_a_budget_of_tenants_counts_from_the_next_decision() -> None:
    service = world(9, per_rack=9)
    start(service, FOUR + ONE_STAGE)
    change(service, tenant_vms="2")
    ramp_up(service)
    assert len(in_work(service)) == 1
    change(service, tenant_vms="none")
    assert len(in_work(service)) > 1


STAGES = (
    '[[campaign.stage]]\nhosts = 1\nsoak = "2h"\n'
    '[[campaign.stage]]\nhosts = 2\nsoak = "2h"\napproval = true\n'
)


def soaking(service: World) -> CampaignRecord:
    start(service, STAGES)
    while not campaign(service).soaks_until:
        service.advance("1m")
    return campaign(service)


def test_a_soak_that_has_begun_ends_at_its_new_time() -> None:
    service = of(4)
    before = soaking(service)
    change(service, soak="1=1h")
    assert campaign(service).soaks_until == before.soaks_until - HOUR
    change(service, soak="1=90m")
    assert campaign(service).soaks_until == before.soaks_until - 30 * MINUTE
    service.advance("30m")
    # It has lasted for longer than that.
    change(service, soak="1=5m")
    assert campaign(service).stage == 2


def test_an_approval_can_be_demanded_and_waived() -> None:
    service = of(4)
    soaking(service)
    change(service, approval="1=yes")
    service.advance("3h")
    assert campaign(service).stage == 1
    assert "stage 2" in waits_for(service)
    change(service, approval="1=no")
    assert campaign(service).stage == 2
    change(service, approval="2=no")
    service.advance("1d")
    assert campaign(service).state is CampaignState.DONE


def test_the_priority_decides_who_uses_the_next_shared_place() -> None:
    service = of(2)
    start(service)
    assert change(service, priority="5").priority == 5


def test_more_outcomes_count_back() -> None:
    service = of(2)
    start(service)
    assert change(service, of_last="10").tolerance.of_last == 10


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"window": "soon"}, "'soon' is not a window: "),
        ({"remove_window": "22:00 7h"}, "campaign bios has no window 22:00 7h UTC"),
        ({"by": "rack"}, "by: "),
        ({"by": "rack=0"}, "by: must be 1 to 1000000, not 0"),
        ({"by": "rack=none"}, "the campaign has no budget by 'rack'"),
        ({"tenant_vms": "10%"}, "tenant_vms: must be a number or none, because"),
        ({"soak": "1"}, "soak: "),
        ({"soak": "4=1h"}, "soak: must be 1 to 3, not 4"),
        ({"soak": "1=1y"}, "soak: "),
        ({"approval": "1=maybe"}, "approval: must be yes or no, not 'maybe'"),
        ({"priority": "10"}, "priority: must be 0 to 9, not 10"),
        ({"of_last": "2"}, "2 failures of the last 2 hosts would never halt"),
        ({"remove_check": "errors"}, "campaign bios has no check errors"),
    ],
)
def test_a_wrong_value_is_refused(values: dict[str, str], message: str) -> None:
    service = of(4)
    start(service, STAGES)
    before = campaign(service)
    with pytest.raises(BadRequestError, match=message):
        change(service, **values)
    assert campaign(service) == before


def test_stages_that_are_over_and_the_last_one_are_refused() -> None:
    service = of(4)
    soaking(service)
    change(service, soak="1=0s")
    assert campaign(service).stage == 2
    with pytest.raises(RefusedError, match="stage 1 of campaign bios has ended"):
        change(service, soak="1=1h")
    with pytest.raises(RefusedError, match="stage 3 of campaign bios is its last one"):
        change(service, approval="3=yes")


def test_a_check_that_the_service_does_not_have_is_refused() -> None:
    service = of(2)
    start(service)
    with pytest.raises(RefusedError, match="there is no check errors"):
        change(service, check="errors")


def test_windows_that_are_too_short_for_a_host_are_refused() -> None:
    service = of(2)
    open_ = at(service, -1)
    start(service, table(open_) + EXPECT + ONE_STAGE)
    with pytest.raises(RefusedError, match="no window of campaign bios would be long"):
        change(service, window=at(service, 2, "10m"), remove_window=open_)


def test_a_paused_campaign_can_change_too() -> None:
    service = of(4)
    start(service)
    steer(service, lambda work: campaigns.pause(work, "bios"))
    change(service, in_flight="2")
    record = campaign(service)
    assert (record.state, record.budget.in_flight) == (CampaignState.PAUSED, "2")
