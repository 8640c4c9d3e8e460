"""The state table of campaigns: a campaign changes its state here and nowhere else.

A campaign can be paused by several actors, and continues when the last of them resumes
it. A halt is one decision, by an operator or a rule, and one operator ends it.
"""

from collections.abc import Mapping

from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.lifecycle import look_up


class CampaignState(Enumeration):
    """State of a campaign."""

    DRAFT = "Draft"
    """Created in this transaction."""
    RUNNING = "Running"
    """It announces hosts."""
    PAUSED = "Paused"
    """It announces no host; announced ones continue."""
    HALTED = "Halted"
    """It announces and starts no host; announced ones are withdrawn without impact."""
    DONE = "Done"
    """All its hosts are done or skipped."""
    ABORTED = "Aborted"
    """An operator ended it; hosts that had not started are skipped."""


ENDED = frozenset({CampaignState.DONE, CampaignState.ABORTED})
"""States that no input changes."""


class CampaignInput(Enumeration):
    """Input of the campaign table."""

    START = "start"
    PAUSE = "pause"
    HALT = "halt"
    RESUME = "resume"
    RESUME_PAUSED = "resume paused"
    """The halt has ended, and an operator still pauses it."""
    FINISH = "finish"
    ABORT = "abort"


_ENDING = {
    CampaignInput.FINISH: CampaignState.DONE,
    CampaignInput.ABORT: CampaignState.ABORTED,
}
_STOPPING = {CampaignInput.HALT: CampaignState.HALTED, **_ENDING}

CAMPAIGN_STEPS: Mapping[CampaignState, Mapping[CampaignInput, CampaignState]] = {
    CampaignState.DRAFT: {CampaignInput.START: CampaignState.RUNNING},
    CampaignState.RUNNING: {CampaignInput.PAUSE: CampaignState.PAUSED, **_STOPPING},
    CampaignState.PAUSED: {
        CampaignInput.PAUSE: CampaignState.PAUSED,
        CampaignInput.RESUME: CampaignState.RUNNING,
        CampaignInput.RESUME_PAUSED: CampaignState.PAUSED,
        **_STOPPING,
    },
    CampaignState.HALTED: {
        CampaignInput.PAUSE: CampaignState.HALTED,
        CampaignInput.RESUME: CampaignState.RUNNING,
        CampaignInput.RESUME_PAUSED: CampaignState.PAUSED,
        **_ENDING,
    },
    CampaignState.DONE: {},
    CampaignState.ABORTED: {},
}


def step(state: CampaignState, trigger: CampaignInput) -> CampaignState:
    """Return the state after an input; raises IllegalTransitionError."""
    return look_up(CAMPAIGN_STEPS, state, trigger)
