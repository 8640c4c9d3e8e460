"""Withdraw announced work without impact: for the brake, a blackout, or a VM that came.

The rollout of a host gets a planned operation instead, which it announces again with a
full notice. Work of other requests is only cancelled.
"""

from dataclasses import replace
from typing import TypeAlias

from forewarn.control.execution import campaign_ends, ending, replanning
from forewarn.control.transactions.work import Work
from forewarn.protocol.notes import VmArrived, WithdrawnByBrake, WithdrawnForBlackout
from forewarn.protocol.operations import Operation, RequestState

Note: TypeAlias = WithdrawnByBrake | WithdrawnForBlackout | VmArrived


def withdraw(work: Work, operation: Operation, note: Note) -> None:
    """Cancel an announced operation, whose scopes are locked; plan its host again.

    `note` says why, and gets the ID of the operation that is announced instead.
    """
    request = work.request(operation.request)
    successor = ""
    if request.at_once and request.state is RequestState.OPEN:
        # It is created before the other ends, so that the request stays open.
        successor = replanning.plan_first(work, operation).operation_id
        if request.campaign:
            campaign = work.campaign(request.campaign)
            counted = replace(campaign, withdrawn=campaign.withdrawn + 1)
            campaign_ends.save(work, campaign, counted)
    ending.cancel(work, operation, note=replace(note, successor=successor))
    work.take_turn(request.request_id)
