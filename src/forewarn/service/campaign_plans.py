"""Plan and simulate campaigns without delaying the VMs.

A separate process (`campaign_planning`) reads a snapshot of the store and plans: for
100,000 hosts it takes ten seconds of processor time and hundreds of MiB. It only returns
the report. Another one (`simulation.process`) simulates, which takes up to minutes. One
process of each kind runs at a time, and ends with its request or with the service. If the
store is in memory, a thread of this process does the work.
"""

import asyncio
import contextlib
import pickle
import threading
from collections.abc import Awaitable, Callable, Collection, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from forewarn.campaigns.plan_drift import SeenPlans
from forewarn.campaigns.plan_progress import Part, Progress, ReportProgress
from forewarn.campaigns.simulated import Assumptions
from forewarn.campaigns.text import CampaignText, about_key, with_lines
from forewarn.control.gateway import BusyError
from forewarn.control.rules.policy import Policy
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits, planning_process
from forewarn.service.readings import Readings
from forewarn.store.port import Reader
from forewarn.store.snapshot import Source

if TYPE_CHECKING:
    from forewarn.campaigns.prepared import Prepared
    from forewarn.control.requests.campaign_starts import PlanRequest
    from forewarn.control.rules.abilities import Abilities

Q = TypeVar("Q")
A = TypeVar("A")


class CampaignPlanningError(ForewarnError):
    """A campaign could not be planned or simulated; nothing was changed."""


class _Task(NamedTuple):
    """A kind of work with a campaign file that has its own process."""

    name: str
    module: str
    seconds_max: float
    """Maximum time of the process."""
    hint: str
    """Advice if the process ends without an answer."""
    busy: str


def _plan_task() -> _Task:
    return _Task(
        name="plan",
        module="forewarn.service.campaign_planning",
        seconds_max=limits.PLANNING_SECONDS_MAX,
        hint="Check the free memory: the process takes about 400 bytes per VM.",
        busy="other campaigns are being planned",
    )


def _simulate_task() -> _Task:
    return _Task(
        name="simulate",
        module="forewarn.service.simulation.process",
        seconds_max=limits.SIMULATION_SECONDS_MAX,
        hint="It can take at most "
        f"{limits.SIMULATION_SECONDS_MAX:.0f} seconds: select fewer hosts.",
        busy="other campaigns are being simulated",
    )


class _Planning:
    """The process that works on one campaign file; its methods block."""

    def __init__(
        self,
        task: _Task,
        store: Source,
        *,
        name: str,
        request: bytes,
        report: ReportProgress,
    ) -> None:
        """Prepare the process for a pickled request, about the file `name`."""
        self._task, self._report = task, report
        self._name = name
        self._request = request
        self._process = planning_process.RequestProcess(
            task.module, store, seconds_max=task.seconds_max
        )

    def run(self) -> Any:
        """Return the answer; raises the errors of `CampaignPlans.plan`."""
        try:
            answer = self._process.answer(self._request, report=self._report)
        except OSError as error:
            raise CampaignPlanningError(
                f"cannot start a process to {self._task.name} {self._name}: "
                f"{error.strerror}"
            ) from error
        if isinstance(answer, ForewarnError):
            raise answer
        if answer is None and self._process.has_ended:
            raise _stopping()
        if answer is None:
            raise CampaignPlanningError(
                f"the process that {self._task.name}s {self._name} "
                f"{self._process.end_text}",
                hint=self._task.hint,
            )
        return answer

    def end(self) -> None:
        """Kill the process; `run` raises BusyError."""
        self._process.end()


def _stopping() -> BusyError:
    return BusyError("the service is stopping", hint="Try again later.")


class _Line:
    """The requests for one kind of work; one process works at a time."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._running: Callable[[], None] | None = None

    async def take(
        self, task: _Task, work: Callable[[], A], end: Callable[[], None]
    ) -> A:
        """Return what `work` returns in a thread, in its turn; `end` makes it end.

        Raises BusyError if too many wait, and the errors of `work`.
        """
        if self._waiting >= limits.CAMPAIGNS_WAITING_MAX:
            raise BusyError(task.busy, hint="Send this one again later.")
        self._waiting += 1
        try:
            async with self._turn:
                self._running = end
                try:
                    return await asyncio.to_thread(work)
                finally:
                    end()
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the running work, if there is some."""
        if self._running is not None:
            self._running()


async def not_asked() -> None:
    """Ask no driver: a follower has none, and the last answers count."""


class CampaignPlans:
    """Plans and simulates one campaign at a time; used on one event loop."""

    def __init__(
        self,
        store: Source | None,
        readings: Readings,
        policy: Policy,
        abilities: "Callable[[], Abilities]",
        checks: Collection[str],
    ) -> None:
        """Plan with a snapshot of `store`; None: with `readings`.

        `abilities` returns what the driver of the service can do, and `checks` has the
        names of its checks.
        """
        self._checks = checks
        self._abilities = abilities
        self._store = store
        self._readings = readings
        self.policy = policy
        self._plans, self._simulations = _Line(), _Line()
        self._progress: dict[str, Progress] = {}
        self._seen = SeenPlans()
        self.ask_abilities: Callable[[], Awaitable[object]] = not_asked
        """Asks the driver again what can be done on hosts."""

    async def plan(self, text: CampaignText, *, hosts_max: int, now: Micros) -> str:
        """Return the plan of a campaign file as JSON.

        Raises CampaignFileError, RefusedError, CampaignPlanningError and BusyError.
        """
        # A service that plans nothing does not load the planner.
        from forewarn.reporting import campaign_plans  # noqa: PLC0415

        request = self._request(text, hosts_max=hosts_max, now=now)
        await self.ask_abilities()
        plan = await self._made(text, request, campaign_plans.planned)
        self._seen.keep(plan.outline)
        return plan.text

    async def prepare(
        self, text: CampaignText, *, digest: str, now: Micros
    ) -> "Prepared":
        """Return what the start of a campaign stores, if its plan has this digest.

        Raises the errors of `plan`.
        """
        from forewarn.control.requests import campaign_starts  # noqa: PLC0415

        request = campaign_starts.StartRequest(
            plan=self._request(text, hosts_max=0, now=now),
            digest=digest,
            seen=self._seen.of(digest),
        )
        return await self._made(text, request, campaign_starts.prepared)

    def has_seen(self, digest: str) -> bool:
        """Return whether the plan with a digest was made here, and is remembered."""
        return self._seen.of(digest) is not None

    def _request(
        self, text: CampaignText, *, hosts_max: int, now: Micros
    ) -> "PlanRequest":
        from forewarn.control.requests import campaign_starts  # noqa: PLC0415

        self._check(text)
        return campaign_starts.plan_request(
            text,
            self.policy,
            now=now,
            hosts_max=hosts_max,
            host_steps=self._abilities().host_steps,
        )

    def _check(self, text: CampaignText) -> None:
        """Refuse a file with problems of its own, or which the service cannot carry out.

        Most problems are of these kinds, and need no process.
        """
        from forewarn.campaigns.file import read_campaign  # noqa: PLC0415
        from forewarn.control.execution import campaign_checks  # noqa: PLC0415
        from forewarn.control.rules.abilities import check_campaign  # noqa: PLC0415

        campaign = read_campaign(text.text, name=text.name)
        with with_lines(text):
            check_campaign(self._abilities(), campaign)
            for number, check in enumerate(campaign.checks, start=1):
                with about_key(f"campaign.check.{number}.use"):
                    campaign_checks.refuse_unknown(self._checks, [check.use])

    async def simulate(
        self, text: CampaignText, assumed: Assumptions, *, hosts_max: int, now: Micros
    ) -> str:
        """Return what happens in a simulation of a campaign file, as JSON.

        Raises the errors of `plan`.
        """
        from forewarn.service.simulation import fleet_copy, play  # noqa: PLC0415

        self._check(text)
        request = play.SimulationRequest(
            text=text,
            assumed=assumed,
            # The choices of the driver are unknown, so forewarn chooses. A second person
            # is there when one is needed.
            policy=replace(self.policy, driver_chooses=False, second_person=False),
            now=now,
            hosts_max=hosts_max,
            host_steps=self._abilities().host_steps,
        )
        task = _simulate_task()
        await self.ask_abilities()
        if self._store is not None:
            return await self._in_process(self._simulations, task, text, request)
        copied = await self._readings.read(
            lambda reader: fleet_copy.copy_fleet(reader, text)
        )
        is_over = threading.Event()
        with self._heard(text) as report:
            return await self._simulations.take(
                task,
                lambda: play.simulated(
                    copied, request, is_over=is_over.is_set, report=report
                ),
                is_over.set,
            )

    def progress(self, key: str) -> Progress | None:
        """Return how far the request with a key has come; None: it is not under way."""
        return self._progress.get(key)

    @contextlib.contextmanager
    def _heard(self, text: CampaignText) -> Generator[ReportProgress]:
        """Keep the progress of a request while it is under way."""
        key = text.key

        def report(progress: Progress) -> None:
            if key in self._progress:
                self._progress[key] = progress

        if key:
            self._progress[key] = Progress(part=Part.WAITING)
        try:
            yield report
        finally:
            self._progress.pop(key, None)

    async def _made(
        self, text: CampaignText, request: Q, make: Callable[[Reader, Q], A]
    ) -> A:
        """Return what `make` makes of a request, in a process if the store is in a file."""
        if self._store is None:
            return await self._readings.read(lambda reader: make(reader, request))
        return await self._in_process(self._plans, _plan_task(), text, request)

    async def _in_process(
        self, line: _Line, task: _Task, text: CampaignText, request: object
    ) -> Any:
        """Return the answer of a process to a request."""
        assert self._store is not None
        with self._heard(text) as report:
            planning = _Planning(
                task,
                self._store,
                name=text.name,
                request=pickle.dumps(request),
                report=report,
            )
            return await line.take(task, planning.run, planning.end)

    def close(self) -> None:
        """End the running processes and threads."""
        self._plans.close()
        self._simulations.close()
