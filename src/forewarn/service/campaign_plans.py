"""Plan campaigns without delaying the VMs.

A separate process (`campaign_planning`) reads a snapshot of the store and plans: for
100,000 hosts it takes ten seconds of processor time and hundreds of MiB. It only returns
the report. One process runs at a time, and ends with its request or with the service. If
the store is in memory, a thread of this process plans.
"""

import asyncio
import pickle
import subprocess
import sys
import threading
from pathlib import Path

from forewarn.campaigns.file import CampaignText
from forewarn.campaigns.planner import Terms
from forewarn.control.gateway import BusyError
from forewarn.instants import Micros
from forewarn.protocol.errors import ForewarnError
from forewarn.reporting import campaign_plans
from forewarn.reporting.campaign_plans import PlanRequest
from forewarn.service import limits
from forewarn.service.readings import Readings


class CampaignPlanningError(ForewarnError):
    """A campaign could not be planned; nothing was changed."""


class _Planning:
    """The process that plans one campaign; its methods block."""

    def __init__(self, store: Path, request: PlanRequest) -> None:
        self._store = store
        self._request = request
        self._guard = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._has_ended = False

    def run(self) -> str:
        """Return the report; raises the errors of `CampaignPlans.plan`."""
        name = self._request.text.name
        # With `-m`, its classes would not match the pickled ones.
        begin = "from forewarn.service.campaign_planning import main; main()"
        with self._guard:
            if self._has_ended:
                raise _stopping()
            try:
                process = self._process = subprocess.Popen(  # noqa: S603 - our program
                    [sys.executable, "-P", "-c", begin, str(self._store.absolute())],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    # A signal from the terminal must reach only the service.
                    start_new_session=True,
                )
            except OSError as error:
                raise CampaignPlanningError(
                    f"cannot start a process to plan {name}: {error.strerror}"
                ) from error
        answer = _answer_of(process, self._request)
        if isinstance(answer, ForewarnError):
            raise answer
        if answer is None and self._has_ended:
            raise _stopping()
        if answer is None:
            raise CampaignPlanningError(
                f"the process that plans {name} has ended "
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
    process: "subprocess.Popen[bytes]", request: PlanRequest
) -> str | ForewarnError | None:
    """Return the answer of the process; None if it ends without one."""
    with process:
        try:
            told, _ = process.communicate(
                pickle.dumps(request), timeout=limits.PLANNING_SECONDS_MAX
            )
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

    def __init__(self, store: Path | None, readings: Readings, terms: Terms) -> None:
        """Plan with the store in the file `store`; None: with `readings`."""
        self._store = store
        self._readings = readings
        self._terms = terms
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._planning: _Planning | None = None

    async def plan(self, text: CampaignText, *, hosts_max: int, now: Micros) -> str:
        """Return the plan of a campaign file as JSON.

        Raises CampaignFileError, RefusedError, CampaignPlanningError and BusyError.
        """
        # Most problems are in the file itself, and need no process.
        text.read()
        request = PlanRequest(
            text=text, hosts_max=hosts_max, terms=self._terms, now=now
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
                planning = self._planning = _Planning(self._store, request)
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
