"""The side effects of a transaction, which run after its commit."""

from dataclasses import dataclass, field

from forewarn.control.transactions.inquiries import Question
from forewarn.drivers.port import Call
from forewarn.protocol.published import Publication


@dataclass(slots=True, kw_only=True)
class Effects:
    """Side effects to run after the commit, in this order."""

    publication: Publication = field(default_factory=Publication)
    """1. Changes that the endpoint must serve before any other effect."""
    changed: dict[str, None] = field(default_factory=dict[str, None])
    """2. Changed operations, for watchers."""
    aborts: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """3. Driver calls that are obsolete."""
    calls: list[Call] = field(default_factory=list[Call])
    """4. Driver calls that this transaction made durable."""
    questions: list[Question] = field(default_factory=list[Question])
    """5. Questions to the driver, which answers later."""
    arrivals: tuple[str, ...] = ()
    """6. Hosts to which VMs have come: the driver is asked about their abilities."""
    revisits: dict[str, None] = field(default_factory=dict[str, None])
    """7. Operations to check again because they may be released now."""
    freed: dict[str, None] = field(default_factory=dict[str, None])
    """8. Names of waits (`waits`) that ended: a held operation may start now."""
    turns: dict[str, None] = field(default_factory=dict[str, None])
    """9. Rollouts that may announce their next host, or have hosts to cancel."""
    pages: dict[str, None] = field(default_factory=dict[str, None])
    """10. Rollouts with hosts whose operations are not created yet."""
    has_changed_brake: bool = False
    """11. Whether the timers of the brake and its losses have changed."""
    withdraws: bool = False
    """12. Whether announced planned work must be withdrawn."""
    visits: dict[str, None] = field(default_factory=dict[str, None])
    """13. Visits that may go on."""
    shares: bool = False
    """14. Whether a campaign may use a place under the limit that all campaigns share."""
