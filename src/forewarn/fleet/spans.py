"""Times in a VM's life: when it was there, and when it did not run.

A span is kept for each, from the transaction that begins it; one that goes on has
no end yet. What a period came to is reckoned in `availability`.
"""

import enum
from dataclasses import dataclass

from forewarn.instants import Micros


class SpanKind(enum.Enum):
    """What held of the VM; all but the first are interruptions."""

    EXISTENCE = "existence"
    """It was in the fleet, in one scope of one tenant."""
    FREEZE = "freeze"
    LIVE_MIGRATE = "live-migrate"
    REBOOT = "reboot"
    REDEPLOY = "redeploy"
    REIMAGE = "reimage"
    FAILURE = "failure"
    """Nobody planned it: from its report until the VM runs again."""


PLANNED_KINDS: tuple[SpanKind, ...] = (
    SpanKind.FREEZE,
    SpanKind.LIVE_MIGRATE,
    SpanKind.REBOOT,
    SpanKind.REDEPLOY,
    SpanKind.REIMAGE,
)
"""Interruptions that an operation made; the words are those of its action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One time of one VM."""

    span_id: str
    """`web_0/` and a part that sorts by time: all of a VM stand together."""
    vm: str
    scope: str
    tenant: str
    fault_domain: int
    """The VM's, when it began."""
    kind: SpanKind
    operation: str = ""
    """What caused the interruption; empty for an existence."""
    began: Micros
    ended: Micros = 0
    """0: it goes on."""
    is_exact: bool = True
    """False, of an existence: the VM was there before, and nothing is known of
    that time. Of an interruption: it was no longer than this."""
    revision: int = 0

    @property
    def key(self) -> str:
        """Return what a store finds it by."""
        return self.span_id

    @property
    def is_open(self) -> bool:
        """Tell whether it goes on."""
        return not self.ended

    @property
    def is_outage(self) -> bool:
        """Tell whether the VM did not run."""
        return self.kind is not SpanKind.EXISTENCE
