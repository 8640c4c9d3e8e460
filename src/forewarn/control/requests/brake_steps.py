"""Follow-ups and timers of the brake, in steps of one transaction each.

Announced work that the brake or a blackout stops is withdrawn in pages, losses whose span
has ended are forgotten, and the brake ends after a calm. Pending steps are in memory only:
the next start of the service finds the brake and the blackouts in the store, and withdraws
the rest. The next timer is remembered, so that an iteration of the control thread reads
nothing for it.
"""

from collections.abc import Callable

from forewarn.control.execution import losses
from forewarn.control.requests import brake, withdrawals
from forewarn.control.transactions.batch import Step
from forewarn.control.transactions.work import Effects, Work
from forewarn.instants import Micros
from forewarn.store import kinds
from forewarn.store.port import Reader, Store, latest
from forewarn.store.records import BRAKE_KEY, Brake


class BrakeSteps:
    """Pending steps of the brake."""

    def __init__(self, store: Store, run: Callable[[Step, Micros], object]) -> None:
        """Start without steps. `run` runs a decision in a transaction."""
        self._store = store
        self._run = run
        self._page: withdrawals.Page | None = None
        """The next page of work to withdraw; None: nothing is left."""
        self._due: Micros | None = None
        self._is_due_known = False

    @property
    def has_page(self) -> bool:
        """Return whether announced work is left to withdraw."""
        return self._page is not None

    def take(self, effects: Effects) -> None:
        """Add the steps of a committed transaction."""
        if effects.has_changed_brake:
            self._is_due_known = False
        if effects.withdraws:
            self._page = withdrawals.Page()

    def take_left_over(self) -> None:
        """Withdraw the work that the last process may have left."""
        if latest(self._store, withdrawals.is_needed):
            self._page = withdrawals.Page()

    def next_due(self) -> Micros | None:
        """Return the time of the next timer, or None."""
        if not self._is_due_known:
            self._due = latest(self._store, _next_due)
            self._is_due_known = True
        return self._due

    def withdraw_page(self, now: Micros) -> None:
        """Withdraw one page of announced work."""
        page = self._page
        if page is not None:
            following = self._run(
                lambda work: withdrawals.withdraw_page(work, page), now
            )
            is_left = isinstance(following, withdrawals.Page)
            self._page = following if is_left else None

    def run_timers(self, now: Micros) -> None:
        """Run the timers that are due."""
        due = self.next_due()
        if due is not None and due <= now:
            self._run(_run_timers, now)


def _run_timers(work: Work) -> None:
    losses.forget_due(work)
    brake.end_calm(work)


def _next_due(reader: Reader) -> Micros | None:
    brake = reader.get(Brake, BRAKE_KEY)
    loss = reader.earliest(kinds.LOSSES_DUE)
    instants = [instant for instant in (loss, brake.due_at if brake else 0) if instant]
    return min(instants, default=None)
