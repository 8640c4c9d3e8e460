"""The interceptor of a simulated server: it applies faults and writes the journal.

Only this module changes the requests and answers of VMs (`metadata.interceptor`).
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from forewarn.instants import Micros
from forewarn.metadata import answers
from forewarn.metadata.cached_response import CachedResponse
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source
from forewarn.metadata.interceptor import Again, InterceptedRequest, Plan
from forewarn.sim import deviations
from forewarn.sim.faults import syntax
from forewarn.sim.faults.fault import Fault
from forewarn.sim.faults.player import FaultPlan, Player
from forewarn.sim.journal import Journal, JournalEntry, Repeated, kept
from forewarn.sim.positions import is_vacant

POLLER_SECONDS = 1.0
"""How long the times of a poller's requests are computed from one reading of the clock.
If the clock is set, the journal uses the old time for this long, plus the life of a
cached answer."""

VACANT = answers.error(
    404, "Not found. This world has no VM at this address", close=True
)
"""The answer at a position of a simulator without a VM."""

NOT_YET = answers.error(
    503,
    "Service unavailable. The simulator is starting",
    headers=(("Retry-After", str(answers.RETRY_AFTER_SECONDS)),),
    close=True,
)
"""The answer at a position that is waiting for its VM: at the start, while listeners are
bound one after the other."""

_NOTHING = Request(method="", path="")
"""Placeholder for a request that was not read, or not sent."""


class _Poller(NamedTuple):
    """The state of a VM that repeats one request, for all its connections."""

    request: Request
    address: str
    status: int
    until: float
    """The I/O time at which this state is renewed, because clocks drift apart."""
    again: Again


class Front:
    """The interceptor of one simulated server."""

    def __init__(
        self,
        *,
        faults: Player,
        journal: Journal,
        inspector: deviations.Inspector,
        now: Callable[[], Micros],
    ) -> None:
        """Apply `faults`, and write requests with the findings of `inspector` to `journal`."""
        self._faults = faults
        self._journal = journal
        self._inspector = inspector
        self._now = now
        self._last: dict[str, tuple[Request, Request]] = {}
        """The last request of each VM and its stored form. Usually the next request is the
        same."""
        self._pollers: dict[str, _Poller] = {}
        self.is_starting = False
        """Whether a position without a VM is still waiting for its VM."""

    def refuses(self, source: Source, vm: str) -> bool:
        """Return whether a new connection is reset."""
        fault = self._faults.connect(vm) if vm else None
        if fault is None:
            return False
        self._note(source, vm, _NOTHING, fault=fault)
        return True

    def take(self, visit: InterceptedRequest) -> Plan | None:
        """Return the fault that applies to a request, if any."""
        faults = self._faults
        return None if faults.is_idle else faults.take(visit.vm, visit.request)

    def answer(
        self, visit: InterceptedRequest, plan: Plan | None, genuine: Response | None
    ) -> Response | None:
        """Return the answer that the VM gets."""
        vm, request = visit.vm, visit.request
        assert plan is None or isinstance(plan, FaultPlan), "plans come from the player"
        answer = self._faults.answer(vm, request, plan, genuine) if vm else genuine
        if answer is not None and is_vacant(visit.source.vm):
            answer = VACANT
            if self.is_starting:
                answer = genuine = NOT_YET
        self._journal_visit(visit, plan, genuine, answer)
        return answer

    def repeating(
        self,
        visit: InterceptedRequest,
        standing: CachedResponse,
        *,
        now: Micros,
        monotonic: float,
    ) -> Again | None:
        """Return a function that notes the next, identical requests of a poller."""
        if not self._faults.is_idle:
            return None
        address, status = visit.source.address, standing.response.status
        poller = self._pollers.get(visit.vm)
        if (
            poller is None
            or poller.request is not visit.request
            or (poller.address, poller.status) != (address, status)
            or monotonic >= poller.until
        ):
            again = self._noting(visit, status, now=now, monotonic=monotonic)
            poller = _Poller(
                visit.request, address, status, monotonic + POLLER_SECONDS, again
            )
            self._pollers[visit.vm] = poller
        return poller.again

    def _noting(
        self, visit: InterceptedRequest, status: int, *, now: Micros, monotonic: float
    ) -> Again:
        """Return a function that may run a hundred thousand times a second.

        It uses precomputed values, and checks only the values that may change.
        """
        client, deviations_found = self._inspector.know(visit.vm, visit.request)
        entry = JournalEntry(
            number=0,
            at=now,
            vm=visit.vm,
            address=visit.source.address,
            request=self._kept(visit),
            status=status,
            genuine=status,
            fault="",
            deviations=deviations_found,
            approved=(),
        )
        faults, journal = self._faults, self._journal
        io_time = asyncio.get_running_loop().time
        note = journal.repeating(Repeated(entry, now=now, monotonic=monotonic))
        note_asked = client.asked.append

        def again(standing: CachedResponse, monotonic: float) -> bool:
            if not (faults.is_idle and standing.may_send(monotonic)):
                return False
            io = io_time()
            note_asked(io)
            hurries = io >= client.spared_until and client.is_hasty(io)
            if hurries or deviations_found:
                journal.add(
                    entry._replace(
                        number=journal.last + 1,
                        at=self._now(),
                        deviations=(*deviations_found, deviations.TOO_OFTEN)
                        if hurries
                        else deviations_found,
                    )
                )
            else:
                note(monotonic)
            return True

        return again

    def unanswered(self, visit: InterceptedRequest, plan: Plan | None) -> None:
        """Write a request whose client disconnected before the answer."""
        assert plan is None or isinstance(plan, FaultPlan), "plans come from the player"
        self._journal_visit(visit, plan, None, None)

    def unread(
        self, source: Source, vm: str, request: Request | None, refusal: Response
    ) -> None:
        """Write a request that could not be read."""
        self._note(
            source,
            vm,
            _NOTHING if request is None else kept(request),
            status=refusal.status,
            deviations_found=deviations.unread(refusal),
        )

    def _kept(self, visit: InterceptedRequest) -> Request:
        """Return the stored form of the request; that of a poller is always the same."""
        request, as_kept = self._last.get(visit.vm, (None, _NOTHING))
        if request is not visit.request:
            as_kept = kept(visit.request)
            self._last[visit.vm] = visit.request, as_kept
        return as_kept

    def _journal_visit(
        self,
        visit: InterceptedRequest,
        plan: FaultPlan | None,
        genuine: Response | None,
        answer: Response | None,
    ) -> None:
        vm, request = visit.vm, visit.request
        if plan is not None and plan.cut_after is not None:
            answer = None
        deviations_found: tuple[deviations.Deviation, ...] = ()
        if vm:
            deviations_found = self._inspector.judge(
                vm, request, genuine=genuine, answer=answer, io_time=visit.io_time
            )
        journal = self._journal
        journal.add(
            JournalEntry(
                journal.last + 1,
                visit.now,
                # The address identifies a deleted VM.
                vm or visit.source.vm,
                visit.source.address,
                self._kept(visit),
                0 if answer is None else answer.status,
                0 if genuine is None else genuine.status,
                "" if plan is None else syntax.words(plan.fault),
                deviations_found,
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
        deviations_found: tuple[deviations.Deviation, ...] = (),
    ) -> None:
        self._journal.add(
            JournalEntry(
                number=self._journal.last + 1,
                at=self._now(),
                vm=vm,
                address=source.address,
                request=request,
                status=status,
                genuine=0,
                fault="" if fault is None else syntax.words(fault),
                deviations=deviations_found,
                approved=(),
            )
        )
