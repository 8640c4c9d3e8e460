"""The sentence of every reason."""

import pytest

from forewarn.control import blockers
from forewarn.control.blockers import BLOCKER_KINDS, Blocker
from forewarn.instants import MINUTE, SECOND

SENTENCES = [
    (
        blockers.NotApproved(tenant="shop", scope="web", listens=True),
        "tenant shop has not approved (scope web)",
    ),
    (
        blockers.NotApproved(tenant="shop", scope="web", listens=False),
        (
            "tenant shop does not listen (scope web has not asked for events), so its "
            "event waits for NotBefore"
        ),
    ),
    (blockers.NotDue(remaining=7 * MINUTE + 12 * SECOND), "NotBefore is in 7 m 12 s"),
    (
        blockers.BatchWaits(tenant="shop", scope="web", target="b"),
        (
            "tenant shop has not approved the deletion of vm b (scope web), which was "
            "ordered together with this one"
        ),
    ),
    (
        blockers.FaultDomainDown(
            scope="web", fault_domain=1, because=("host h2 failed", "op-1 has started")
        ),
        "scope web has fault domain 1 down because host h2 failed and op-1 has started",
    ),
    (
        blockers.MigrationUnderWay(scope="web", operation="op-1"),
        (
            "scope web has a live migration under way (op-1), and only one at a time is "
            "allowed"
        ),
    ),
    (
        blockers.VmBusy(vm="a", operation="op-1"),
        "vm a is in the hands of operation op-1",
    ),
    (blockers.VmDown(vm="a"), "vm a is down, and its host with it"),
    (
        blockers.NoRoom(
            vm="a", why="there is no place for a: there are no other hosts"
        ),
        "there is no place for a: there are no other hosts",
    ),
    (
        blockers.DriverRetry(remaining=10 * SECOND, note="timed out"),
        "the driver failed (timed out) and is called again in 10 s",
    ),
    (
        blockers.OutcomeUnknown(operation="op-1", note="timed out"),
        (
            "nobody knows whether the driver did it (timed out): look at the VMs, then "
            "say `forewarn resolve op-1 done` or `failed`"
        ),
    ),
    (
        blockers.StillDown(target_kind="host", target="h1"),
        "host h1 is down until `forewarn restore h1`",
    ),
]


@pytest.mark.parametrize(
    ("blocker", "sentence"), SENTENCES, ids=lambda each: getattr(each, "kind", "")
)
def test_the_sentence(blocker: Blocker, sentence: str) -> None:
    assert blocker.sentence() == sentence


def test_every_kind_has_its_sentence_and_its_name() -> None:
    classes = [
        each
        for each in vars(blockers).values()
        if isinstance(each, type) and issubclass(each, Blocker) and each is not Blocker
    ]
    assert {type(blocker) for blocker, _ in SENTENCES} == {*classes}
    assert sorted(BLOCKER_KINDS) == sorted(each.kind for each in classes)
    assert len(set(BLOCKER_KINDS)) == len(BLOCKER_KINDS)


def test_a_reason_must_have_a_sentence() -> None:
    with pytest.raises(NotImplementedError):
        Blocker().sentence()
