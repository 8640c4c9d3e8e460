"""The answers of a driver about a host and its VMs: which actions are possible. Pure.

A driver as a whole supports actions (`Driver.actions`). Beyond that, it can tell about
single hosts and VMs: a host without shared storage cannot live-migrate its VMs, and a VM
with a passthrough device cannot be moved. "Unknown" is an answer of its own: it refuses
nothing, and is shown as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass
from forewarn.protocol.verbs import Action


class Able(Enumeration):
    """Whether an action can be carried out."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@frozen_dataclass
class Ability:
    """The answer about one VM, or about a host and so about each VM on it."""

    able: Able
    action: Action | None = None
    """None: every action about which there is no other answer."""
    vm: str = ""
    """Empty: the answer is about the host."""
    reason: str = ""
    """Text of the driver for an operator."""


NOT_TOLD = Ability(able=Able.UNKNOWN)
"""Stands for a missing answer."""


def answer_about(answers: Sequence[Ability], action: Action, vm: str = "") -> Ability:
    """Return the answer about an action on a VM; empty: on the host."""
    answer = NOT_TOLD
    for ability in answers:
        if ability.vm != vm:
            continue
        if ability.action is action:
            return ability
        if ability.action is None:
            answer = ability
    return answer


def prevented(
    answers: Sequence[Ability], actions: Collection[Action], vms: Collection[str]
) -> Iterator[Ability]:
    """Yield each answer that one of these actions cannot be carried out on these VMs.

    The answer about the host comes first. The stricter answer of host and VM decides.
    """
    for vm in ("", *vms):
        for action in actions:
            answer = answer_about(answers, action, vm)
            if answer.able is Able.NO:
                yield answer
                break
