"""Receivers of operators are told about campaigns and the brake; tenants are not."""

from dataclasses import replace
from pathlib import Path

from forewarn.control import outbox
from forewarn.control.requests import brake, campaigns, failures
from forewarn.control.rules.policy import BrakeLimits, Subscriber
from forewarn.control.transactions.messages import NOTICES
from forewarn.drivers.simulated import SimulatedDriver
from forewarn.drivers.tasks import Fault, FaultKind
from forewarn.protocol.operations import Action
from forewarn.reporting.notices import notice_report
from forewarn.settings.amounts import Amount
from forewarn.store import kinds
from forewarn.store.memory import MemoryStore
from forewarn.store.notices import Notice, NoticeKind
from forewarn.store.port import every
from forewarn.store.records import OutboxMessage
from forewarn.store.sqlite import SqliteStore
from forewarn.wording import notices
from tests.support.campaigns import ONE_STAGE, campaign, start, steer
from tests.support.rollouts import check_of, name_of, world_of
from tests.support.worlds import World

OPS = Subscriber(name="ops", changes=frozenset(), notices=frozenset(NoticeKind))
TENANT = Subscriber(name="shop", tenant="shop", notices=frozenset(NoticeKind))

STAGES = """
[[campaign.stage]]
hosts = 1
soak = "1h"
approval = true
[[campaign.stage]]
hosts = "100%"
"""


def of(
    hosts: int, *subscribers: Subscriber, fails: bool = False, file: Path | None = None
) -> World:
    """Return a world of hosts with a VM each; with `fails`, the first work fails."""
    driver = SimulatedDriver()
    if fails:
        driver.inject(Fault(kind=FaultKind.FAIL, action=Action.REBOOT, times=3))
    world = world_of(
        [{f"s{number}": 0} for number in range(hosts)],
        driver=driver,
        store=MemoryStore if file is None else lambda: SqliteStore(file),
    )
    world.plane.policy = replace(
        world.plane.policy, subscribers=subscribers or (OPS, TENANT)
    )
    return world


def messages(world: World, receiver: str = "ops") -> list[OutboxMessage]:
    return world.read(
        lambda reader: list(every(reader, kinds.OUTBOX_OF_RECEIVER, receiver))
    )


def told(world: World) -> list[Notice]:
    return [message.notice for message in messages(world) if message.notice is not None]


def titles(world: World) -> list[str]:
    return [notices.title(notice) for notice in told(world)]


def test_a_campaign_tells_its_start_its_stages_its_approval_and_its_end(
    tmp_path: Path,
) -> None:
    world = of(3, file=tmp_path / "notices.db")
    start(world, STAGES)
    assert titles(world) == ["campaign bios has started"]
    assert notices.sentence(told(world)[0]) == (
        "reboot of 3 hosts in 2 stages, by alice: CVE-2026-1234."
    )
    world.advance("40m")
    assert campaign(world).done == 1
    assert len(told(world)) == 1, "the first stage still soaks"
    world.advance("3h")
    assert titles(world)[1:] == ["campaign bios: stage 2 waits for approval"], "once"
    assert notices.sentence(told(world)[1]) == (
        "1 of 3 hosts done. Run `forewarn campaign approve bios 2` to let stage 2 begin."
    )
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    assert titles(world)[2:] == ["campaign bios: stage 2 of 2 has started"]
    world.advance("3h")
    assert titles(world)[3:] == ["campaign bios is done"]
    assert notices.sentence(told(world)[3]) == (
        "3 of 3 hosts done. Run `forewarn campaign report bios`."
    )
    assert check_of(world, tmp_path / "notices.db") == []


def test_an_early_approval_asks_nobody() -> None:
    world = of(3)
    start(world, STAGES)
    world.advance("40m")
    steer(world, lambda work: campaigns.approve(work, "bios", 2))
    world.advance("5h")
    assert titles(world) == [
        "campaign bios has started",
        "campaign bios: stage 2 of 2 has started",
        "campaign bios is done",
    ]


def test_a_halt_says_why_and_what_to_do() -> None:
    world = of(3, fails=True)
    start(world, STAGES)
    world.advance("1h")
    halted = told(world)[-1]
    assert notices.title(halted) == "campaign bios is halted"
    assert notices.sentence(halted) == (
        f"Host {name_of(0)} failed, and no stage but the last one tolerates a failure. "
        f"Failed: {name_of(0)}. 0 of 3 hosts done, 1 failed. Run `forewarn campaign show "
        "bios`, then `campaign resume` or `campaign abort`."
    )
    report = notice_report(halted)
    assert report["halted"]["cause"] == "canary"
    assert report["campaign"]["failed_hosts"] == [name_of(0)]
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
    steer(world, lambda work: campaigns.pause(work, "bios"))
    steer(world, lambda work: campaigns.abort(work, "bios"))
    assert [notice.kind for notice in told(world)[-3:]] == [
        NoticeKind.CAMPAIGN_RESUMED,
        NoticeKind.CAMPAIGN_PAUSED,
        NoticeKind.CAMPAIGN_ABORTED,
    ]
    assert notices.sentence(told(world)[-1]).startswith(
        "By alice: a reason. 0 of 3 hosts"
    )


def test_a_halt_by_hand_names_its_operator() -> None:
    world = of(2)
    start(world)
    steer(world, lambda work: campaigns.halt(work, "bios"), actor="bob", reason="smoke")
    assert notices.sentence(told(world)[-1]).startswith(
        "By bob: smoke. 0 of 2 hosts done."
    )


def test_the_brake_tells_its_losses_and_each_halted_campaign() -> None:
    world = of(5)
    world.plane.policy = replace(
        world.plane.policy, brake=BrakeLimits(hosts=Amount(value=1))
    )
    start(world)
    for number in (3, 4):
        world.order(lambda work, n=number: failures.fail_host(work, name_of(n)))
    world.settle()
    assert titles(world)[1:] == ["the brake is on", "campaign bios is halted"]
    assert notices.sentence(told(world)[1]) == (
        f"By brake, because 2 hosts were lost within 10 m, more than 1: {name_of(3)}, "
        f"{name_of(4)}. No planned work begins until `forewarn brake off`."
    )
    world.order(brake.take_off, actor="bob", reason="power is back")
    assert notices.sentence(told(world)[-1]) == (
        "By bob: power is back. Planned work continues."
    )


def test_a_receiver_gets_only_the_notices_that_it_names() -> None:
    halts = replace(OPS, notices=frozenset({NoticeKind.CAMPAIGN_HALTED}))
    world = of(3, halts, fails=True)
    start(world, STAGES)
    world.advance("1h")
    assert titles(world) == ["campaign bios is halted"]
    assert messages(world)[0].change is None


def test_no_notice_reaches_a_tenant_even_if_its_receiver_was_an_operators() -> None:
    world = of(3)
    start(world)
    world.advance("3h")
    assert not [
        message for message in messages(world, "shop") if message.notice is not None
    ]
    # The settings give the receiver to a tenant while notices wait for it.
    assert len(messages(world)) == 2

    def read(tenant: str) -> list[OutboxMessage]:
        return world.read(
            lambda reader: outbox.waiting(reader, "ops", tenant=tenant, limit=10)
        )

    assert len(read("")) == 2
    assert read("shop") == []
    foreign = world.read(lambda reader: outbox.foreign(reader, "ops", tenant="shop"))
    assert foreign == messages(world)


def test_a_waiting_event_of_another_tenant_is_not_shown_either() -> None:
    everything = Subscriber(name="ops")
    world = of(1, everything)
    start(world)
    [waiting] = messages(world)
    assert outbox.is_of(waiting, "shop")
    assert not outbox.is_of(waiting, "another")


def test_every_noted_step_has_its_notice() -> None:
    world = of(3, fails=True)
    start(world, STAGES)
    world.advance("1h")
    steer(world, lambda work: campaigns.resume(work, "bios", by_all=True))
    steer(world, lambda work: campaigns.retry(work, "bios", []))
    world.advance("5h")
    noted = world.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    expected = [NOTICES[entry.kind] for entry in noted if entry.kind in NOTICES]
    assert [notice.kind for notice in told(world)] == expected
    assert NoticeKind.APPROVAL_NEEDED in expected


def test_a_campaign_without_receivers_stores_no_message() -> None:
    world = world_of([{"s0": 0}])
    start(world, ONE_STAGE)
    world.advance("3h")
    assert world.read(lambda reader: reader.select(kinds.ALL_OUTBOX)) == []
