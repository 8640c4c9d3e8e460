"""Plan campaigns without delaying the VMs.

A separate process (`campaign_planning`) reads a snapshot of the store and plans: for
100,000 hosts it takes ten seconds of processor time and hundreds of MiB. It only returns
the report. One process runs at a time, and ends with its request or with the service. If
the store is in memory, a thread of this process plans.
"""

import asyncio
import pickle
import subprocess
import threading
from pathlib import Path

from forewarn.campaigns.text import CampaignText
from forewarn.control.gateway import BusyError
from forewarn.control.rules.policy import Policy
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits, planning_process
from forewarn.service.readings import Readings


class CampaignPlanningError(ForewarnError):
    """A campaign could not be planned; nothing was changed."""


class _Planning:
    """The process that plans one campaign; its methods block."""

    def __init__(self, store: Path, *, name: str, request: bytes) -> None:
        """Prepare the process for a pickled request, about the file `name`."""
        self._store = store
        self._name = name
        self._request = request
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False

    def run(self) -> str:
        """Return the report; raises the errors of `CampaignPlans.plan`."""
        with self._guard:
            if self._has_ended:
                raise _stopping()
            try:
                process = self._process = planning_process.begin(
                    "forewarn.service.campaign_planning", self._store
                )
            except OSError as error:
                raise CampaignPlanningError(
                    f"cannot start a process to plan {self._name}: {error.strerror}"
                ) from error
        answer = _answer_of(process, self._request)
        if isinstance(answer, ForewarnError):
            raise answer
        if answer is None and self._has_ended:
            raise _stopping()
        if answer is None:
            raise CampaignPlanningError(
                f"the process that plans {self._name} has ended "
                f"(status {process.returncode})",
                hint="Check the free memory: the process takes about 400 bytes per VM.",
            )
        return answer

    def end(self) -> None:
        """Kill the process; `run` raises BusyError."""
        with self._guard:
            self._has_ended = True
        if self._process is not None:
            self._process.kill()


def _answer_of(
    process: "subprocess.Popen[bytes]", request: bytes
) -> str | ForewarnError | None:
    """Return the answer of the process; None if it ends without one."""
    with process:
        try:
            told, _ = process.communicate(request, timeout=limits.PLANNING_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            return None
    try:
        return pickle.loads(told)  # noqa: S301 - from our own program
    except (EOFError, ValueError, pickle.UnpicklingError):
        return None


def _stopping() -> BusyError:
    return BusyError("the service is stopping", hint="Try again later.")


class CampaignPlans:
    """Plans one campaign at a time; used on one event loop."""

    def __init__(self, store: Path | None, readings: Readings, policy: Policy) -> None:
        """Plan with the store in the file `store`; None: with `readings`."""
        self._store = store
        self._readings = readings
        self._policy = policy
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._planning: _Planning | None = None

    async def plan(self, text: CampaignText, *, hosts_max: int, now: Micros) -> str:
        """Return the plan of a campaign file as JSON.

        Raises CampaignFileError, RefusedError, CampaignPlanningError and BusyError.
        """
        # A service that plans nothing does not load the planner.
        from forewarn.campaigns.file import read_campaign  # noqa: PLC0415
        from forewarn.reporting import campaign_plans  # noqa: PLC0415

        # Most problems are in the file itself, and need no process.
        read_campaign(text.text, name=text.name)
        request = campaign_plans.PlanRequest(
            text=text,
            hosts_max=hosts_max,
            terms=campaign_plans.terms_of(self._policy),
            now=now,
        )
        if self._store is None:
            return await self._readings.read(
                lambda reader: campaign_plans.planned(reader, request)
            )
        if self._waiting >= limits.CAMPAIGNS_WAITING_MAX:
            raise BusyError(
                "other campaigns are being planned", hint="Send this one again later."
            )
        self._waiting += 1
        try:
            async with self._turn:
                planning = self._planning = _Planning(
                    self._store, name=text.name, request=pickle.dumps(request)
                )
                try:
                    return await asyncio.to_thread(planning.run)
                finally:
                    planning.end()
        finally:
            self._waiting -= 1

    def close(self) -> None:
        """End the running process, if there is one."""
        if self._planning is not None:
            self._planning.end()
