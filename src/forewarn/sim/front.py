"""Who stands in front of a stage's endpoint: faults, and a journal of requests.

It is the one place where what VMs send and get is touched (metadata.interposer).
"""

from collections.abc import Callable
from typing import NamedTuple

from forewarn.instants import Micros
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.metadata.interposer import Plan, Visit
from forewarn.sim import deviations
from forewarn.sim.deviations import Deviation, Inspector
from forewarn.sim.faults import words
from forewarn.sim.faults.fault import Fault
from forewarn.sim.faults.player import FaultPlan, Player
from forewarn.sim.journal import Journal, Seen, kept

_NOTHING = Request(method="", path="")
"""In the place of a request that was not read, or not sent."""


class _Last(NamedTuple):
    """A request, as the next of a poller will be."""

    request: Request
    kept: Request
    """As the journal keeps it."""


class Front:
    """The interposer of one stage."""

    def __init__(
        self,
        *,
        faults: Player,
        journal: Journal,
        inspector: Inspector,
        now: Callable[[], Micros],
    ) -> None:
        """Play `faults`, and note in `journal` what `inspector` says of all."""
        self._faults = faults
        self._journal = journal
        self._inspector = inspector
        self._now = now
        self._last: dict[str, _Last] = {}
        """What each VM asked last: mostly the next is the same."""

    def refuses(self, source: Source, vm: str) -> bool:
        """Tell whether a new connection is reset."""
        fault = self._faults.connect(vm) if vm else None
        if fault is None:
            return False
        self._note(source, vm, _NOTHING, fault=fault)
        return True

    def take(self, visit: Visit) -> Plan | None:
        """Say which fault befalls a request."""
        if self._faults.is_idle:
            return None
        return self._faults.take(visit.vm, visit.request)

    def answer(
        self, visit: Visit, plan: Plan | None, genuine: Response | None
    ) -> Response | None:
        """Return what the VM gets."""
        vm, request = visit.vm, visit.request
        assert plan is None or isinstance(plan, FaultPlan), "plans are the player's"
        given = self._faults.answer(vm, request, plan, genuine) if vm else genuine
        self._journal_visit(visit, plan, genuine, given)
        return given

    def lets_stand(self) -> bool:
        """Tell whether nothing is set that an answer could suffer."""
        return self._faults.is_idle

    def again(
        self, visit: Visit, given: Response, *, now: Micros, io_time: float
    ) -> None:
        """Note a poller's next request: nothing is new but its time."""
        vm = visit.vm
        last = self._last.get(vm)
        if last is None or last.request is not visit.request:
            # Another connection of the VM has asked for something else meanwhile.
            last = self._last[vm] = _Last(visit.request, kept(visit.request))
        found = self._inspector.again(vm, visit.request, io_time)
        journal, status = self._journal, given.status
        journal.add(
            Seen(
                journal.last + 1,
                now,
                vm,
                visit.source.address,
                last.kept,
                status,
                status,
                "",
                found,
                (),
            )
        )

    def unanswered(self, visit: Visit, plan: Plan | None) -> None:
        """Note who went before the answer."""
        assert plan is None or isinstance(plan, FaultPlan), "plans are the player's"
        self._journal_visit(visit, plan, None, None)

    def unread(
        self, source: Source, vm: str, request: Request | None, refusal: Response
    ) -> None:
        """Note what could not be read."""
        self._note(
            source,
            vm,
            _NOTHING if request is None else kept(request),
            status=refusal.status,
            found=deviations.unread(refusal),
        )

    def reset(self) -> None:
        """Forget every client."""
        self._last.clear()
        self._inspector.reset()

    def _journal_visit(
        self,
        visit: Visit,
        plan: FaultPlan | None,
        genuine: Response | None,
        given: Response | None,
    ) -> None:
        vm, request = visit.vm, visit.request
        last = self._last.get(vm)
        if last is None or last.request is not request:
            last = self._last[vm] = _Last(request, kept(request))
        if plan is not None and plan.cut_after is not None:
            given = None
        found: tuple[Deviation, ...] = ()
        if vm:
            found = self._inspector.judge(
                vm, request, genuine=genuine, given=given, io_time=visit.io_time
            )
        journal = self._journal
        journal.add(
            Seen(
                journal.last + 1,
                visit.now,
                # One that was deleted is no VM any more, but its address tells it.
                vm or visit.source.vm,
                visit.source.address,
                last.kept,
                0 if given is None else given.status,
                0 if genuine is None else genuine.status,
                "" if plan is None else words.words(plan.fault),
                found,
                deviations.approved_ids(request) if request.method == "POST" else (),
            )
        )

    def _note(
        self,
        source: Source,
        vm: str,
        request: Request,
        *,
        status: int = 0,
        fault: Fault | None = None,
        found: tuple[Deviation, ...] = (),
    ) -> None:
        self._journal.add(
            Seen(
                number=self._journal.last + 1,
                at=self._now(),
                vm=vm,
                address=source.address,
                request=request,
                status=status,
                genuine=0,
                fault="" if fault is None else words.words(fault),
                deviations=found,
                approved=(),
            )
        )
