"""What failed in a recording, failing again; and what somebody spoils by hand."""

from collections.abc import Callable, Mapping
from http import HTTPStatus

from forewarn.metadata.http import Request, Response
from forewarn.sim.faults.fault import Fault, Where
from forewarn.sim.faults.player import FaultPlan, Player
from forewarn.sim.recording import Answer, Failed, Failure

_GARBAGE = Response(
    status=HTTPStatus.OK,
    payload=b"this is no answer of HTTP\r\n\r\n",
    close=True,
    takes_date=False,
)

_DOCUMENT_STATUSES = frozenset({HTTPStatus.OK, HTTPStatus.NOT_MODIFIED})
"""What the endpoint says to who asks properly."""

_FAULTS: Mapping[Failure, Fault] = {
    Failure.REFUSED: Fault(kind="refuse", where=Where.ALL),
    Failure.UNREACHABLE: Fault(kind="refuse", where=Where.ALL),
    Failure.RESET: Fault(kind="reset", size=0, where=Where.ALL),
    Failure.TIMEOUT: Fault(kind="timeout", where=Where.ALL),
    Failure.STRANGE: Fault(kind="replace", where=Where.ALL),
}
_STATUS = Fault(kind="replace")


class RecordedFaults(Player):
    """Plays what failed in a recording, after what somebody sets by hand."""

    _recorded: Answer | Failed | None = None
    _on_first: Callable[[], None] | None = None

    @property
    def recorded(self) -> Answer | Failed | None:
        """What is answered now in the place of a document; None: nothing fails."""
        return self._recorded

    @recorded.setter
    def recorded(self, outcome: Answer | Failed | None) -> None:
        self._recorded = outcome
        self._look()

    @property
    def on_first(self) -> Callable[[], None] | None:
        """Called by the next request, or new connection, before all is decided."""
        return self._on_first

    @on_first.setter
    def on_first(self, act: Callable[[], None] | None) -> None:
        self._on_first = act
        self._look()

    def _finds_nothing(self) -> bool:
        is_free = self._recorded is None and self._on_first is None
        return is_free and super()._finds_nothing()

    def connect(self, vm: str) -> Fault | None:
        """Return the fault that a new connection meets."""
        if self.on_first is not None:
            self.on_first()
        set_by_hand = super().connect(vm)
        if set_by_hand is None and isinstance(self.recorded, Failed):
            fault = _FAULTS[self.recorded.failure]
            return fault if fault.kind == "refuse" else None
        return set_by_hand

    def take(self, vm: str, request: Request) -> FaultPlan | None:
        """Return what befalls a request; None: nothing."""
        if self.on_first is not None:
            self.on_first()
        set_by_hand = super().take(vm, request)
        recorded = self.recorded
        if set_by_hand is not None or recorded is None or not vm:
            return set_by_hand
        if isinstance(recorded, Failed):
            fault = _FAULTS[recorded.failure]
            cut_after = 0 if fault.kind in {"refuse", "reset"} else None
            return FaultPlan(fault=fault, arrives=False, cut_after=cut_after)
        if request.method == "GET" and Where.EVENTS.has(request.path):
            return FaultPlan(fault=_STATUS, in_full=True)
        if recorded.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            # A service that is down takes no approvals either.
            return FaultPlan(fault=_STATUS, arrives=False)
        return None

    def answer(
        self,
        vm: str,
        request: Request,
        plan: FaultPlan | None,
        genuine: Response | None,
    ) -> Response | None:
        """Return what is sent; see Interceptor.answer."""
        recorded = self.recorded
        if plan is not None and plan.fault is _FAULTS[Failure.STRANGE]:
            return _GARBAGE
        if (
            plan is None
            or plan.fault is not _STATUS
            or not isinstance(recorded, Answer)
        ):
            return super().answer(vm, request, plan, genuine)
        if genuine is not None and genuine.status not in _DOCUMENT_STATUSES:
            # Who asks wrongly is told so.
            return genuine
        return recorded.response()
