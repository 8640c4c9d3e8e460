"""Visits: the work of one request on one host, as values.

A visit has the host steps of its request, and the operation that the VMs of the host
see. `lifecycle` has the table of its states. Pure.
"""

from __future__ import annotations

from forewarn.instants import Micros
from forewarn.protocol.blockers import CallEnd
from forewarn.protocol.enumerations import Enumeration
from forewarn.protocol.frozen import frozen_dataclass, same_as
from forewarn.protocol.host_steps import HostStep, StepKind
from forewarn.protocol.operations import CallState


class VisitState(Enumeration):
    """State of a visit; `lifecycle.VISIT_STEPS` has the transitions."""

    WAITING = "Waiting"
    """Not announced: `needed` runs, or the host waits for its turn afterwards."""
    ANNOUNCED = "Announced"
    """The operation of the host is announced, and has not started."""
    ENTERING = "Entering"
    """The operation has started, the host is cordoned, and `enter` runs."""
    DRAINING = "Draining"
    """The operation affects the VMs: they move away, or pause or restart in place."""
    WORKING = "Working"
    """`work` runs. VMs that were paused or stopped for it stay so."""
    ANSWERING = "Answering"
    """`answers` runs until the host answers. VMs that were stopped stay so."""
    RESTORING = "Restoring"
    """The VMs that were paused or stopped for the work are resumed or started."""
    VERIFYING = "Verifying"
    """`verify` runs until it has succeeded often enough."""
    EXITING = "Exiting"
    """`exit` runs. Then the host is opened."""
    DONE = "Done"
    DEFERRED = "Deferred"
    """The VMs could not be moved away, paused or stopped. The host was opened and can be
    tried again."""
    SKIPPED = "Skipped"
    """The host was not worked on, or an operator gave up its failed visit."""
    FAILED = "Failed"
    """A step failed. The host stays cordoned until an operator retries or skips it."""
    UNKNOWN = "Unknown"
    """The outcome of a step is unknown. The host stays cordoned, as after a failure."""


ENDED_VISITS = frozenset({VisitState.DONE, VisitState.DEFERRED, VisitState.SKIPPED})
STUCK_VISITS = frozenset({VisitState.FAILED, VisitState.UNKNOWN})
"""States that only an operator ends."""
ENTERED_VISITS = frozenset(
    {
        VisitState.ENTERING,
        VisitState.DRAINING,
        VisitState.WORKING,
        VisitState.ANSWERING,
        VisitState.RESTORING,
        VisitState.VERIFYING,
        VisitState.EXITING,
        *STUCK_VISITS,
    }
)
"""States in which the visit has cordoned its host."""


class StepOutcome(Enumeration):
    """The result of a call of a step."""

    DONE = "done"
    NOT_NEEDED = "not needed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@frozen_dataclass
class StepResult:
    """The result of the last call of a step."""

    kind: StepKind
    outcome: StepOutcome
    end: CallEnd = CallEnd()
    """Message of the driver, or the reason of an unknown outcome."""
    at: Micros = 0


class SkipReason(Enumeration):
    """Why a host was skipped."""

    NOT_NEEDED = "not needed"
    """The step `needed` found that the host does not need the work."""
    NEEDED_FAILED = "needed failed"
    """The step `needed` failed, or its outcome is unknown."""
    CANCELLED = "cancelled"
    """The operation was cancelled before its start."""
    GIVEN_UP = "given up"
    """An operator gave up a failed visit."""
    HALTED = "halted"
    """Its campaign was halted or aborted before the work. The visit ends as Deferred."""


@frozen_dataclass
class Visit:
    """The work of one request on one host."""

    visit_id: str
    request: str
    operation: str
    """The operation that the VMs of the host see."""
    host: str
    state: VisitState
    steps: tuple[HostStep, ...]
    created: Micros
    since: Micros = 0
    """When it entered its state; 0: not known."""
    is_needed: bool = False
    """Whether the host needs the work: `needed` said so, or the request has no such
    step."""
    holds_slot: bool = False
    """Whether the visit counts as a host in flight of its request."""
    is_deferred: bool = False
    """Whether an Exiting visit ends as Deferred."""
    generation: int = 0
    """Number of the last call. The ID and the generation together name a call."""
    call_state: CallState = CallState.NONE
    """State of that call; never RETRY: an operator repeats a failed step."""
    driver: str = ""
    """Kind of the driver that got the call."""
    driver_memory: str = ""
    """Identity of the driver memory that got the call."""
    due_at: Micros = 0
    """Time of the visit's timer; 0: none."""
    verified: int = 0
    """Number of successes of `verify` in a row."""
    give_up_at: Micros = 0
    """When the present phase fails if it has not succeeded; 0: never."""
    failed_in: VisitState | None = None
    """The state in which the visit failed or became unknown."""
    skipped: SkipReason | None = None
    """Why there is no work; None: there is, or the VMs could not leave the host."""
    results: tuple[StepResult, ...] = ()
    """The last result of each step that has run, in the order of the steps."""
    ended_at: Micros = 0
    revision: int = 0

    key = same_as("visit_id")
    """The key in a store."""

    @property
    def occupies_host(self) -> bool:
        """Return whether the host is announced or in work for the visit.

        The work can continue after the end of the operation that its VMs see.
        """
        return self.holds_slot and self.state is not VisitState.WAITING

    def step(self, kind: StepKind) -> HostStep | None:
        """Return the step of a kind; None: the visit has none."""
        return next((step for step in self.steps if step.kind is kind), None)

    def result(self, kind: StepKind) -> StepResult | None:
        """Return the result of the step of a kind; None: it has none."""
        return next((result for result in self.results if result.kind is kind), None)

    @property
    def current_kind(self) -> StepKind | None:
        """Return the kind of step that runs in the present state."""
        return STEP_OF_STATE.get(self.state)

    @property
    def last_result(self) -> StepResult | None:
        """Return the newest result."""
        return max(self.results, key=lambda result: result.at, default=None)


STEP_OF_STATE = {
    VisitState.WAITING: StepKind.NEEDED,
    VisitState.ENTERING: StepKind.ENTER,
    VisitState.WORKING: StepKind.WORK,
    VisitState.ANSWERING: StepKind.ANSWERS,
    VisitState.VERIFYING: StepKind.VERIFY,
    VisitState.EXITING: StepKind.EXIT,
}
"""The step that runs in each state."""

VISIT_PREFIX = "vi-"
"""The beginning of the IDs of visits."""


def is_visit_id(name: str) -> bool:
    """Return whether a name is the ID of a visit."""
    return name.startswith(VISIT_PREFIX)
