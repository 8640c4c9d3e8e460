"""What the driver tells about hosts and VMs: when it is asked, kept, and what it rules out."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from forewarn.campaigns.text import CampaignText
from forewarn.control.ability_link import AGAIN_AFTER, HOSTS_PER_QUESTION
from forewarn.control.requests import campaign_starts, verbs
from forewarn.control.requests.verbs import OrderOptions
from forewarn.control.transactions.work import Who
from forewarn.drivers.limited import Limited
from forewarn.drivers.port import HostVms
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.instants import MINUTE, SECOND
from forewarn.protocol.abilities import Ability, Able
from forewarn.protocol.actors import tenant_user
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.operations import Action, OperationState, Request
from forewarn.protocol.verbs import Verb
from forewarn.reporting import campaign_plans, explanations
from forewarn.store import kinds
from forewarn.store.host_abilities import HostAbilities
from forewarn.store.memory import MemoryStore
from forewarn.store.port import every
from forewarn.store.sqlite import SqliteStore
from forewarn.wording.operators import refusal
from tests.support.rollouts import check_of, fleet, name_of, of_host, roll_out, states
from tests.support.worlds import CrashError, World

NO_STORAGE = Limited(
    action=Action.LIVE_MIGRATE, host="h0000", reason="no shared storage"
)
PASSED_THROUGH = Limited(
    action=Action.LIVE_MIGRATE, vm="b-1", reason="a passthrough device"
)
THREE = ({"a": 0}, {"b": 0}, {"c": 0})


class Asked(SimulatedDriver):
    """Notes which hosts are asked about."""

    def __init__(self, *limited: Limited) -> None:
        super().__init__(limited=limited)
        self.asked: list[list[str]] = []

    def abilities(self, hosts: Sequence[HostVms]) -> Mapping[str, tuple[Ability, ...]]:
        self.asked.append([host.host for host in hosts])
        return super().abilities(hosts)


def new_world(
    *limited: Limited,
    hosts: Sequence[dict[str, int]] = THREE,
    file: Path | None = None,
) -> World:
    store = MemoryStore if file is None else lambda: SqliteStore(file)
    return World(store=store, driver=Asked(*limited), fleet=fleet(hosts))


def driver_of(world: World) -> Asked:
    assert isinstance(world.driver, Asked)
    return world.driver


def rows(world: World) -> dict[str, HostAbilities]:
    host_abilities = world.read(lambda reader: list(every(reader, kinds.ALL_ABILITIES)))
    return {row.host: row for row in host_abilities}


def explain(world: World, name: str) -> list[str]:
    told = world.read(lambda reader: explanations.explain(reader, name, now=world.now))
    return [ability["text"] for ability in told["abilities"]]


def order(world: World, verb: Verb, vm: str) -> Request:
    result = world.order(
        lambda work: verbs.change_vms(work, [vm], verb, OrderOptions())
    )
    world.settle()
    return result


def refused(world: World, *hosts: int, action: Action = Action.LIVE_MIGRATE) -> str:
    names = [name_of(number) for number in hosts]
    with pytest.raises(RefusedError) as caught:
        world.order(lambda work: verbs.maintain(work, names, action, OrderOptions()))
    return refusal(caught.value)


def test_all_hosts_are_asked_at_the_start_and_kept_in_a_row_each(
    tmp_path: Path,
) -> None:
    number = HOSTS_PER_QUESTION + 1
    world = new_world(NO_STORAGE, hosts=[{"a": 0}] * number, file=tmp_path / "store")
    world.restart()
    assert len(rows(world)) == number
    driver_of(world).asked.clear()
    world.restart()
    assert [len(question) for question in driver_of(world).asked] == [
        HOSTS_PER_QUESTION,
        1,
    ]
    # The same answers again write nothing.
    assert {row.revision for row in rows(world).values()} == {0}


def test_driver_that_tells_nothing_is_not_asked_and_stores_nothing(
    tmp_path: Path,
) -> None:
    world = new_world(file=tmp_path / "store")
    world.restart()
    roll_out(world, 1, action=Action.LIVE_MIGRATE)
    assert driver_of(world).asked == []
    assert rows(world) == {}
    assert explain(world, "h0000") == []


def test_host_that_cannot_live_migrate_is_refused_with_the_reason() -> None:
    world = new_world(NO_STORAGE)
    assert refused(world, 0) == (
        "host h0000 cannot be maintained with the impact live-migrate; the driver says "
        "that live-migrate is not possible for the VMs of host h0000: no shared storage"
    )
    sentence = (
        "the driver says that live-migrate is not possible for the VMs of host h0000: "
        "no shared storage"
    )
    assert explain(world, "h0000") == explain(world, "a-0") == [sentence]
    # Other hosts, and other impacts on it, are possible.
    roll_out(world, 1, action=Action.FREEZE)
    assert states(world) == {"h0000": OperationState.ANNOUNCED}


def test_vm_with_a_passthrough_device_keeps_its_host_from_being_emptied() -> None:
    world = new_world(PASSED_THROUGH)
    assert "is not possible for VM b-1: a passthrough device" in refused(world, 1)
    assert explain(world, "h0001") == explain(world, "b-1")
    assert explain(world, "a-0") == []
    with pytest.raises(RefusedError) as caught:
        world.order(
            lambda work: verbs.DECISIONS["host-drain"](work, it_given(["h0001"]))
        )
    assert "a passthrough device" in refusal(caught.value)


def it_given(targets: list[str]) -> verbs.VerbRequest:
    return verbs.VerbRequest(targets=tuple(targets), values={})


def test_guest_that_cannot_be_frozen_can_be_rebooted() -> None:
    world = new_world(Limited(action=Action.FREEZE, vm="a-0", reason="real time"))
    assert "freeze is not possible for VM a-0: real time" in refused(
        world, 0, action=Action.FREEZE
    )
    roll_out(world, 1, action=Action.REBOOT)
    assert states(world) == {"h0000": OperationState.ANNOUNCED}


def test_vm_is_refused_for_a_verb_of_its_own_and_its_tenant_gets_no_text() -> None:
    world = new_world(
        Limited(action=Action.REDEPLOY, vm="a-0", reason="disk on h0000"),
        Limited(action=Action.REBOOT, host="h0001", reason="console of h0001"),
    )
    with pytest.raises(RefusedError) as caught:
        order(world, Verb.REDEPLOY, "a-0")
    assert refusal(caught.value) == (
        "redeploy of VM a-0 is not possible; the driver says that redeploy is not "
        "possible for VM a-0: disk on h0000"
    )
    who = Who(actor=tenant_user("shop", "tess"))
    with pytest.raises(RefusedError) as caught:
        world.plane.order(
            who,
            lambda work: verbs.change_vms(work, ["b-1"], Verb.REBOOT, OrderOptions()),
            now=world.now,
        )
    assert refusal(caught.value) == "reboot of VM b-1 is not possible"
    # A VM can always be deleted.
    order(world, Verb.TERMINATE, "a-0")


def test_unknown_refuses_nothing_and_is_shown() -> None:
    world = new_world(
        Limited(
            action=Action.FREEZE, vm="a-0", able=Able.UNKNOWN, reason="no guest agent"
        )
    )
    roll_out(world, 1, action=Action.FREEZE)
    assert states(world) == {"h0000": OperationState.ANNOUNCED}
    assert explain(world, "a-0") == [
        "the driver does not know whether freeze is possible for VM a-0: no guest agent"
    ]


def test_refused_order_makes_the_driver_be_asked_again() -> None:
    world = new_world(NO_STORAGE)
    refused(world, 0)
    world.settle()
    driver_of(world).limit(PASSED_THROUGH)
    driver_of(world).asked.clear()
    # The first order still has the old answer, and the next one the new answer.
    refused(world, 0)
    world.settle()
    assert driver_of(world).asked == [["h0000"]]
    roll_out(world, 1, action=Action.LIVE_MIGRATE)
    assert states(world) == {"h0000": OperationState.ANNOUNCED}


def test_host_of_a_vm_that_has_come_is_asked_and_no_other() -> None:
    world = new_world(Limited(action=Action.FREEZE, vm="a-0"))
    roll_out(world, 1, action=Action.LIVE_MIGRATE)
    driver_of(world).asked.clear()
    world.advance("20m")
    to_host = world.stored_vm("a-0").host
    assert to_host != "h0000"
    assert driver_of(world).asked == [[to_host]]
    assert explain(world, "a-0") == [
        "the driver says that freeze is not possible for VM a-0: simulated"
    ]


def test_host_waits_at_its_turn_until_the_driver_can_move_its_vms() -> None:
    world = new_world(Limited(action=Action.REIMAGE, vm="a-0"))
    roll_out(world, 2, action=Action.LIVE_MIGRATE)
    driver_of(world).limit(PASSED_THROUGH)
    world.plane.abilities.want_all()
    world.advance("40m")
    waiting = of_host(world, 1)
    assert waiting.state is OperationState.PLANNED
    [reason] = world.explain(waiting.operation_id)
    assert reason.endswith("is not possible for VM b-1: a passthrough device")
    driver_of(world).limit(Limited(action=Action.REIMAGE, vm="a-0"))
    world.plane.abilities.want_all()
    world.advance("1s")
    assert of_host(world, 1).state is OperationState.ANNOUNCED


def test_stricter_of_fleet_file_and_driver_decides_and_is_named() -> None:
    text = fleet(THREE).replace('name = "b-1"', 'name = "b-1"\nmovable = false')
    limited = replace(PASSED_THROUGH, able=Able.UNKNOWN)
    world = World(store=MemoryStore, driver=Asked(limited), fleet=text)
    assert explain(world, "b-1") == [
        "live-migrate is not possible for VM b-1: movable = false in the fleet file",
        "redeploy is not possible for VM b-1: movable = false in the fleet file",
    ]
    assert "VM b-1 cannot be moved" in refused(world, 1)


def test_silent_host_keeps_its_answer_and_is_asked_again(tmp_path: Path) -> None:
    world = new_world(NO_STORAGE, file=tmp_path / "store")
    world.restart()
    driver_of(world).limit(PASSED_THROUGH, silent=["h0000"])
    world.restart()
    assert "no shared storage" in explain(world, "h0000")[0]
    driver_of(world).asked.clear()
    world.advance(AGAIN_AFTER - SECOND)
    assert driver_of(world).asked == []
    world.advance(2 * SECOND)
    assert driver_of(world).asked == [["h0000"]]
    # It is silent again, so the next question comes later.
    world.advance(MINUTE)
    assert len(driver_of(world).asked) == 1
    driver_of(world).limit(PASSED_THROUGH)
    world.advance(2 * MINUTE)
    assert explain(world, "h0000") == []


def test_answer_about_a_removed_host_is_removed_with_it() -> None:
    world = new_world(NO_STORAGE)
    assert set(rows(world)) == {"h0000", "h0001", "h0002"}
    world.apply_fleet(fleet(THREE[:2]))
    world.settle()
    assert set(rows(world)) == {"h0000", "h0001"}


def test_crash_at_any_place_of_a_question_leaves_it_to_the_next_start(
    tmp_path: Path,
) -> None:
    file = tmp_path / "store"
    world = World(
        store=lambda: SqliteStore(file), driver=Asked(NO_STORAGE), fleet=fleet(THREE)
    )
    number = 0
    for number in range(1, 40):
        driver_of(world).limit(replace(NO_STORAGE, reason=f"reason {number}"))
        world.crash_at = lambda _place, count, number=number: count == number
        world.passed.clear()
        try:
            world.plane.abilities.want_all()
            world.settle()
        except CrashError:
            world.restart()
            assert f"reason {number}" in explain(world, "h0000")[0]
            assert check_of(world, file) == []
        else:
            break
    assert number > 1, "no crash was tried"
    assert f"reason {number}" in explain(world, "h0000")[0]


CAMPAIGN = """
[campaign]
name = "bios"
reason = "CVE"
impact = "live-migrate"
select = { all = true }
"""


def test_plan_of_a_campaign_leaves_out_hosts_that_cannot_be_cleared() -> None:
    world = new_world(
        NO_STORAGE,
        PASSED_THROUGH,
        Limited(action=Action.LIVE_MIGRATE, vm="c-2", able=Able.UNKNOWN),
    )
    text = CampaignText(name="bios.toml", text=CAMPAIGN)
    request = campaign_starts.plan_request(
        text, world.plane.policy, now=world.now, hosts_max=9
    )
    plan = json.loads(
        world.read(lambda reader: campaign_plans.planned(reader, request).text)
    )
    assert [host["host"] for host in plan["hosts"]] == ["h0002"]
    assert {row["host"]: row["message"] for row in plan["refused"]} == {
        "h0000": "the driver says that live-migrate is not possible for its VMs: no shared "
        "storage",
        "h0001": "the driver says that live-migrate is not possible for VM b-1: a "
        "passthrough device",
    }
    assert plan["refused_by_reason"] == {"unable": 2}
    unknown = "the driver does not know whether live-migrate is possible on 1 host"
    assert unknown in plan["warnings"]
