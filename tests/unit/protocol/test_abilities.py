"""The answers of a driver about actions on hosts and VMs."""

from forewarn.protocol.abilities import (
    NOT_TOLD,
    Ability,
    Able,
    answer_about,
    prevented,
)
from forewarn.protocol.verbs import Action

HOST = Ability(able=Able.YES)
NO_MOVE = Ability(able=Able.NO, action=Action.LIVE_MIGRATE, reason="no storage")
VM = Ability(able=Able.YES, vm="a")
STIFF = Ability(able=Able.NO, action=Action.FREEZE, vm="a")
VAGUE = Ability(able=Able.UNKNOWN, action=Action.REBOOT, vm="a")
TOLD = (NO_MOVE, HOST, STIFF, VAGUE, VM)


def test_answer_about_an_action_comes_before_that_about_all_others() -> None:
    assert answer_about(TOLD, Action.LIVE_MIGRATE) == NO_MOVE
    assert answer_about(TOLD, Action.FREEZE) == HOST
    assert answer_about(TOLD, Action.FREEZE, "a") == STIFF
    assert answer_about(TOLD, Action.REDEPLOY, "a") == VM
    assert answer_about(TOLD, Action.FREEZE, "b") == NOT_TOLD
    assert answer_about((), Action.FREEZE) == NOT_TOLD


def test_stricter_answer_of_host_and_vm_decides() -> None:
    moving, freezing = (Action.LIVE_MIGRATE,), (Action.PAUSE, Action.FREEZE)
    assert list(prevented(TOLD, moving, ["a"])) == [NO_MOVE]
    assert list(prevented(TOLD, freezing, ["a", "b"])) == [STIFF]
    # Each VM is named once, whatever it cannot do.
    both = (STIFF, Ability(able=Able.NO, action=Action.PAUSE, vm="a"))
    assert len(list(prevented(both, freezing, ["a"]))) == 1


def test_unknown_prevents_nothing() -> None:
    assert list(prevented(TOLD, (Action.REBOOT,), ["a", "b"])) == []
    assert list(prevented((), (Action.REBOOT,), ["a"])) == []
