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
    return [each.notice for each in messages(world) if each.notice is not None]


def titles(world: World) -> list[str]:
    return [notices.title(each) for each in told(world)]


def test_a_campaign_tells_its_start_its_stages_its_approval_and_its_end(
    tmp_path: Path,
) -> None:
    it = of(3, file=tmp_path / "notices.db")
    start(it, STAGES)
    assert titles(it) == ["campaign bios has started"]
    assert notices.sentence(told(it)[0]) == (
        "reboot of 3 hosts in 2 stages, by alice: CVE-2026-1234."
    )
    it.advance("40m")
    assert campaign(it).done == 1
    assert len(told(it)) == 1, "the first stage still soaks"
    it.advance("3h")
    assert titles(it)[1:] == ["campaign bios: stage 2 waits for approval"], "once"
    assert notices.sentence(told(it)[1]) == (
        "1 of 3 hosts done. Run `forewarn campaign approve bios 2` to let stage 2 begin."
    )
    steer(it, lambda work: campaigns.approve(work, "bios", 2))
    assert titles(it)[2:] == ["campaign bios: stage 2 of 2 has started"]
    it.advance("3h")
    assert titles(it)[3:] == ["campaign bios is done"]
    assert notices.sentence(told(it)[3]) == (
        "3 of 3 hosts done. Run `forewarn campaign report bios`."
    )
    assert check_of(it, tmp_path / "notices.db") == []


def test_an_early_approval_asks_nobody() -> None:
    it = of(3)
    start(it, STAGES)
    it.advance("40m")
    steer(it, lambda work: campaigns.approve(work, "bios", 2))
    it.advance("5h")
    assert titles(it) == [
        "campaign bios has started",
        "campaign bios: stage 2 of 2 has started",
        "campaign bios is done",
    ]


def test_a_halt_says_why_and_what_to_do() -> None:
    it = of(3, fails=True)
    start(it, STAGES)
    it.advance("1h")
    halted = told(it)[-1]
    assert notices.title(halted) == "campaign bios is halted"
    assert notices.sentence(halted) == (
        f"Host {name_of(0)} failed, and no stage but the last one tolerates a failure. "
        f"Failed: {name_of(0)}. 0 of 3 hosts done, 1 failed. Run `forewarn campaign show "
        "bios`, then `campaign resume` or `campaign abort`."
    )
    report = notice_report(halted)
    assert report["halted"]["cause"] == "canary"
    assert report["campaign"]["failed_hosts"] == [name_of(0)]
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))
    steer(it, lambda work: campaigns.pause(work, "bios"))
    steer(it, lambda work: campaigns.abort(work, "bios"))
    assert [each.kind for each in told(it)[-3:]] == [
        NoticeKind.CAMPAIGN_RESUMED,
        NoticeKind.CAMPAIGN_PAUSED,
        NoticeKind.CAMPAIGN_ABORTED,
    ]
    assert notices.sentence(told(it)[-1]).startswith("By alice: a reason. 0 of 3 hosts")


def test_a_halt_by_hand_names_its_operator() -> None:
    it = of(2)
    start(it)
    steer(it, lambda work: campaigns.halt(work, "bios"), actor="bob", reason="smoke")
    assert notices.sentence(told(it)[-1]).startswith(
        "By bob: smoke. 0 of 2 hosts done."
    )


def test_the_brake_tells_its_losses_and_each_halted_campaign() -> None:
    it = of(5)
    it.plane.policy = replace(it.plane.policy, brake=BrakeLimits(hosts=Amount(value=1)))
    start(it)
    for number in (3, 4):
        it.order(lambda work, n=number: failures.fail_host(work, name_of(n)))
    it.settle()
    assert titles(it)[1:] == ["the brake is on", "campaign bios is halted"]
    assert notices.sentence(told(it)[1]) == (
        f"By brake, because 2 hosts were lost within 10 m, more than 1: {name_of(3)}, "
        f"{name_of(4)}. No routine work begins until `forewarn brake off`."
    )
    it.order(brake.take_off, actor="bob", reason="power is back")
    assert notices.sentence(told(it)[-1]) == (
        "By bob: power is back. Routine work continues."
    )


def test_a_receiver_gets_only_the_notices_that_it_names() -> None:
    halts = replace(OPS, notices=frozenset({NoticeKind.CAMPAIGN_HALTED}))
    it = of(3, halts, fails=True)
    start(it, STAGES)
    it.advance("1h")
    assert titles(it) == ["campaign bios is halted"]
    assert messages(it)[0].change is None


def test_no_notice_reaches_a_tenant_even_if_its_receiver_was_an_operators() -> None:
    it = of(3)
    start(it)
    it.advance("3h")
    assert not [each for each in messages(it, "shop") if each.notice is not None]
    # The settings give the receiver to a tenant while notices wait for it.
    assert len(messages(it)) == 2

    def read(tenant: str) -> list[OutboxMessage]:
        return it.read(
            lambda reader: outbox.waiting(reader, "ops", tenant=tenant, limit=10)
        )

    assert len(read("")) == 2
    assert read("shop") == []
    foreign = it.read(lambda reader: outbox.foreign(reader, "ops", tenant="shop"))
    assert foreign == messages(it)


def test_a_waiting_event_of_another_tenant_is_not_shown_either() -> None:
    everything = Subscriber(name="ops")
    it = of(1, everything)
    start(it)
    [waiting] = messages(it)
    assert outbox.is_of(waiting, "shop")
    assert not outbox.is_of(waiting, "another")


def test_every_noted_step_has_its_notice() -> None:
    it = of(3, fails=True)
    start(it, STAGES)
    it.advance("1h")
    steer(it, lambda work: campaigns.resume(work, "bios", by_all=True))
    steer(it, lambda work: campaigns.retry(work, "bios", []))
    it.advance("5h")
    noted = it.read(lambda reader: list(every(reader, kinds.ALL_AUDIT)))
    expected = [NOTICES[each.kind] for each in noted if each.kind in NOTICES]
    assert [each.kind for each in told(it)] == expected
    assert NoticeKind.APPROVAL_NEEDED in expected


def test_a_campaign_without_receivers_stores_no_message() -> None:
    it = world_of([{"s0": 0}])
    start(it, ONE_STAGE)
    it.advance("3h")
    assert it.read(lambda reader: reader.select(kinds.ALL_OUTBOX)) == []
