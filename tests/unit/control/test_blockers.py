"""The sentence of every reason."""

from dataclasses import replace
from typing import get_args

import pytest

from forewarn.instants import MINUTE, SECOND
from forewarn.protocol import blockers
from forewarn.protocol.blockers import (
    BLOCKER_KINDS,
    AnyBlocker,
    Blocker,
    CallEnd,
    Redacted,
)
from forewarn.protocol.no_place import NoPlace
from forewarn.protocol.operations import Action, TargetKind, Verb
from forewarn.protocol.turn_blockers import BudgetKind
from forewarn.wording.more import NOUNS
from forewarn.wording.operators import call_end, reason

SENTENCES = [
    (
        blockers.NotApproved(tenant="shop", scope="web", listens=True),
        "tenant shop has not approved (scope web)",
    ),
    (
        blockers.NotApproved(tenant="shop", scope="web", listens=False),
        (
            "tenant shop has not enabled Scheduled Events for scope web, so its event "
            "waits for NotBefore"
        ),
    ),
    (blockers.NotDue(remaining=7 * MINUTE + 12 * SECOND), "NotBefore is in 7 m 12 s"),
    (
        blockers.NoticeRuns(remaining=7 * MINUTE),
        "the clock was set forward during the notice, which ends in 7 m",
    ),
    (
        blockers.BatchWaits(tenant="shop", scope="web", target="b"),
        (
            "tenant shop has not approved the deletion of VM b (scope web), which was "
            "requested together with this one"
        ),
    ),
    (
        blockers.FaultDomainDown(
            scope="web",
            fault_domain=1,
            causes=(
                blockers.Cause(
                    operation="op-2", target_kind=TargetKind.HOST, target="h2"
                ),
                blockers.Cause(
                    operation="op-1",
                    verb=Verb.MAINTAIN,
                    action=Action.REBOOT,
                    target_kind=TargetKind.HOST,
                    target="h3",
                ),
                blockers.Cause(),
            ),
            more=4,
        ),
        (
            "scope web has fault domain 1 down because host h2 failed (down until "
            "`forewarn restore h2`) and op-1 has started: maintain (reboot) of host h3 and it is down and 4 more"
        ),
    ),
    (
        blockers.MigrationUnderWay(scope="web", operation="op-1"),
        (
            "scope web has a live migration that has not ended (op-1), and only one at a time is "
            "allowed"
        ),
    ),
    (
        blockers.SharedHost(
            host="h1",
            scope="web",
            vms=(
                blockers.DomainMember(vm="a", fault_domain=0),
                blockers.DomainMember(vm="b", fault_domain=3),
            ),
            more=2,
        ),
        (
            "host h1 has fault domains 0 (VM a) and 3 (VM b) and 2 more of scope web, and "
            "maintenance of the host would affect them together"
        ),
    ),
    (
        blockers.VmBusy(vm="a", operation="op-1"),
        "VM a is busy: operation op-1 is running on it",
    ),
    (
        blockers.BrakeOn(by="alice", reason="unstable"),
        "the brake is on until `forewarn brake off`, by alice: unstable",
    ),
    (
        blockers.WindowClosed(scope="web", opens=0),
        "the maintenance window of scope web opens at 1970-01-01T00:00:00Z",
    ),
    (
        blockers.WindowClosed(scope="web", opens=0, is_promised=True),
        (
            "the opening of scope web at 1970-01-01T00:00:00Z has not come; it was "
            "promised before the windows changed"
        ),
    ),
    (
        blockers.CampaignStopped(
            campaign="bios", is_halted=False, by="alice", reason="rack r7 of bank"
        ),
        (
            "campaign bios is paused until `forewarn campaign resume bios --reason TEXT`, "
            "by alice: rack r7 of bank"
        ),
    ),
    (
        blockers.StageWaits(campaign="bios", stage=2, left=3),
        "stage 2 of campaign bios begins when 3 hosts of the stage before it are done",
    ),
    (
        blockers.StageWaits(campaign="bios", stage=2, left=1),
        "stage 2 of campaign bios begins when 1 host of the stage before it is done",
    ),
    (
        blockers.StageWaits(campaign="bios", stage=2, left=3, failed=1),
        (
            "stage 2 of campaign bios begins when 3 hosts of the stage before it are "
            "done; 1 has failed: `forewarn campaign retry bios --failed` tries it again, "
            "and `forewarn campaign skip bios HOST --reason TEXT` leaves it out"
        ),
    ),
    (
        blockers.StageWaits(campaign="bios", stage=0, left=2, failed=2),
        (
            "campaign bios has only 2 failed hosts left: `forewarn campaign retry bios "
            "--failed` tries them again, and `forewarn campaign skip bios HOST --reason "
            "TEXT` leaves them out"
        ),
    ),
    (
        blockers.StageWaits(campaign="bios", stage=2, remaining=60_000_000),
        "the stage before stage 2 of campaign bios soaks for another 1 m",
    ),
    (
        blockers.StageWaits(campaign="bios", stage=2, needs_approval=True),
        (
            "stage 2 of campaign bios needs an approval: "
            "`forewarn campaign approve bios 2`"
        ),
    ),
    (
        blockers.OutsideWindow(campaign="bios", opens=0),
        "no window of campaign bios is long enough for a host",
    ),
    (
        blockers.InBlackout(blackout="year-end", ends=1_000_000, campaign="bios"),
        "blackout year-end of campaign bios forbids it until 1970-01-01T00:00:01Z",
    ),
    (
        blockers.InBlackout(blackout="year-end", ends=0),
        "blackout year-end never ends for it",
    ),
    (
        blockers.CheckUnknown(campaign="bios", check="errors", said="no answer"),
        "check errors of campaign bios is unknown: no answer",
    ),
    (
        blockers.DrainFailed(campaign="bios", drains=1, most=3, until=SECOND),
        (
            "its VMs could not be moved away in 1 of at most 3 attempts; campaign bios "
            "tries it again after its other hosts, from 1970-01-01T00:00:01Z on"
        ),
    ),
    (
        blockers.BudgetUsed(
            campaign="bios", budget=BudgetKind.GROUP, used=1, most=1, subject="rack=r7"
        ),
        "campaign bios: 1 of 1 hosts of rack=r7 are in flight",
    ),
    (
        blockers.ReserveKept(
            pool="p",
            resource="memory",
            needed=1024,
            free=3072,
            reserve=2560,
            setting="1",
        ),
        (
            "its VMs need 1GiB of memory on other hosts of pool p, which have 3GiB free, and "
            "policy.reserve (1) keeps 2560MiB free"
        ),
    ),
    (
        blockers.Deferred(tenant="shop", scope="web", vm="a", until=0),
        "tenant shop has deferred VM a until 1970-01-01T00:00:00Z",
    ),
    (
        blockers.NoCommonWindow(scopes=("db", "web")),
        "the maintenance windows of scopes db, web are not open together within 14 d",
    ),
    (blockers.VmDown(vm="a"), "VM a is down, and its host with it"),
    (
        blockers.VmDown(vm="a", host="h1"),
        "VM a is down, and its host with it until `forewarn restore h1`",
    ),
    (
        blockers.NoCapacity(vm="a", why=NoPlace()),
        "there is no host with capacity for a: there are no other hosts",
    ),
    (
        blockers.DriverUnable(
            host="h1", vm="a", action=Action.LIVE_MIGRATE, said="a passthrough device"
        ),
        (
            "the driver says that live-migrate is not possible for VM a: a passthrough "
            "device"
        ),
    ),
    (
        blockers.RelaySilent(host="h1"),
        (
            "the relay of host h1 has been silent since the start of the service, so its "
            "VMs may not know their events: `forewarn relay list` shows it. If the host "
            "has no relay any longer, revoke its tokens (`forewarn token list`)"
        ),
    ),
    (
        blockers.DriverRetry(remaining=10 * SECOND, end=CallEnd(said="timed out")),
        "the driver failed (timed out) and is called again in 10 s",
    ),
    (
        blockers.DriverAsked(generation=2),
        "the driver was asked for the outcome of call 2, and has not answered yet",
    ),
    (
        blockers.OutcomeUnknown(operation="op-1", end=CallEnd(said="timed out")),
        (
            "the driver cannot tell whether the call completed (timed out): check the "
            "VMs, then run `forewarn resolve op-1 done` or `failed`"
        ),
    ),
    (
        blockers.StillDown(target_kind="host", target="h1"),
        "host h1 is down until `forewarn restore h1`",
    ),
    (
        blockers.NotItsTurn(
            request="ro-1", position=7, hosts=9, in_flight=2, at_once=3
        ),
        (
            "it waits for its turn: host 7 of 9 of rollout ro-1, with 2 in flight and "
            "at most 3 at once"
        ),
    ),
    (
        blockers.NotItsTurn(
            request="ro-1", position=2, hosts=9, in_flight=1, at_once=1, waiting=8
        ),
        "8 hosts wait for their turn, with 1 in flight and at most 1 at once",
    ),
    (
        blockers.ScopeInUse(scope="web", fault_domain=1),
        (
            "fault domain 1 of scope web is announced, in maintenance or down, and only "
            "one at a time is allowed"
        ),
    ),
    (
        blockers.ScopeInUse(scope="web", fault_domain=1, operation="op-1"),
        (
            "fault domain 1 of scope web is announced, in maintenance or down by op-1, "
            "and only one at a time is allowed"
        ),
    ),
    (
        blockers.ScopeInUse(scope="web", fault_domain=1, operation="op-1", down="h1"),
        (
            "fault domain 1 of scope web is down until `forewarn restore h1`, and only one "
            "at a time is allowed"
        ),
    ),
    (
        blockers.ScopeReserved(scope="web", operation="op-1"),
        "operation op-1 has waited longer and comes first in scope web",
    ),
    (
        blockers.HostInUse(host="h1"),
        "host h1 is down until `forewarn restore h1`",
    ),
    (
        blockers.HostInUse(host="h1", operation="op-1", verb=Verb.MAINTAIN),
        "host h1 has op-1 (maintain) under way",
    ),
    (
        blockers.HostInUse(host="h1", arriving="a"),
        "host h1 keeps a place for VM a",
    ),
    (blockers.More(of="vm busy", count=2), "2 more VMs are busy"),
    (blockers.More(of="approval", count=1), "1 more approval is missing"),
    (
        blockers.More(of="of another version", count=1),
        "1 more reason (of another version)",
    ),
    (
        blockers.ByPlatform(what=Redacted.NO_CAPACITY, name="a"),
        "the platform has no capacity for VM a now",
    ),
]

NOT_COUNTED = {"more", "platform"}
"""Kinds that no operation is held by: one sums up others, one replaces them."""


@pytest.mark.parametrize(
    ("blocker", "sentence"), SENTENCES, ids=lambda blocker: getattr(blocker, "kind", "")
)
def test_blocker_is_formatted(blocker: AnyBlocker, sentence: str) -> None:
    assert reason(blocker) == sentence


def test_every_blocker_kind_is_formatted_and_named() -> None:
    classes = [
        member
        for member in vars(blockers).values()
        if isinstance(member, type)
        and issubclass(member, Blocker)
        and member is not Blocker
    ]
    assert {type(blocker) for blocker, _ in SENTENCES} == {*classes}
    counted = {class_.kind for class_ in classes} - NOT_COUNTED
    assert sorted(BLOCKER_KINDS) == sorted(counted)
    assert set(get_args(blockers.AnyBlocker)) == {*classes}
    assert len(set(BLOCKER_KINDS)) == len(BLOCKER_KINDS)


def test_further_blockers_of_every_kind_have_words() -> None:
    assert sorted(NOUNS) == sorted(BLOCKER_KINDS)


BUSY = [blockers.VmBusy(vm=f"v{n}", operation="op-1") for n in range(7)]
DOWN = [
    blockers.FaultDomainDown(
        scope="web", fault_domain=1, causes=(blockers.Cause(operation=f"op-{n}"),)
    )
    for n in range(2)
]


def test_bounded_list_names_three_blockers_of_each_kind_and_counts_the_rest() -> None:
    assert blockers.bounded([*BUSY, *DOWN]) == (
        *BUSY[:3],
        *DOWN,
        blockers.More(of="vm busy", count=4),
    )
    assert blockers.bounded(BUSY[:3]) == tuple(BUSY[:3])
    assert blockers.bounded([]) == ()


def test_signature_depends_on_kind_scope_and_vm_and_not_on_causes() -> None:
    assert blockers.signature(DOWN[:1]) == blockers.signature(DOWN[1:])
    distinct = [
        *BUSY[:2],
        DOWN[0],
        replace(DOWN[0], scope="db"),
        blockers.MigrationUnderWay(scope="web", operation="op-1"),
        blockers.VmDown(vm="v0"),
        blockers.NoCapacity(vm="v0", why=NoPlace()),
        blockers.NotDue(remaining=1),
    ]
    assert len(blockers.signature(distinct)) == len(distinct)


def test_every_trouble_of_a_call_has_its_own_sentence() -> None:
    texts = {call_end(CallEnd(trouble=trouble)) for trouble in blockers.Trouble}
    assert len(texts) == len(blockers.Trouble)
    late = call_end(CallEnd(trouble=blockers.Trouble.MAY_COME_LATE))
    assert late.endswith("the replica that got it may still make it")
