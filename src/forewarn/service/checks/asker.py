"""The checks of one service: asked in threads, counted, and reported to control.

A check is asked regularly while control needs it (`Board.needed`), and when an operator
requests it. A question has one thread and one deadline, so neither the event loop nor
control ever waits for another system. At most one question of a check is open.
"""

import asyncio
import contextlib
import logging
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from forewarn.admin.meters import Reading
from forewarn.checks.board import Board
from forewarn.checks.model import Bounds, CheckResult, Judged, Kind, Outcome, unknown
from forewarn.clock import Clock
from forewarn.control.gateway import BusyError
from forewarn.control.plane import Plane
from forewarn.drivers.errands import Errands
from forewarn.instants import SECOND, Micros, format_duration, instant_or_none
from forewarn.protocol.errors import NotFoundError
from forewarn.service import metric_definitions
from forewarn.service.checks import limits
from forewarn.service.checks.programs import Programs
from forewarn.service.checks.questions import ask
from forewarn.service.inbox import StoppedError
from forewarn.service.options import without_secrets
from forewarn.service.settings_model import CheckSettings, Settings

logger = logging.getLogger("forewarn.checks")


Control: TypeAlias = Callable[[Callable[[Plane, Micros], None]], Awaitable[None]]
"""Calls a function with the plane in the control thread; raises BusyError and
StoppedError."""


def age_max(check: CheckSettings) -> Micros:
    """Return the age at which a result of a check is too old."""
    return limits.ANSWERS_MISSED * check.every + check.timeout


class Checks:
    """Asks the checks; used on the event loop (admin.gateways.CheckGateway)."""

    def __init__(self, settings: Settings, *, clock: Clock) -> None:
        """Prepare the checks; nothing is asked before `begin`, except by request."""
        self._checks: Mapping[str, CheckSettings] = {
            check.name: check for check in settings.check
        }
        self.board = Board(
            {check.name: age_max(check) for check in settings.check},
            {check.name: check.fails for check in settings.check},
        )
        """The last results, for the plane."""
        self._clock = clock
        self._control: Control | None = None
        self._programs = Programs(clock)
        self._errands = Errands(
            at_once=limits.AT_ONCE, name="forewarn-check", monotonic=clock.monotonic
        )
        self._open: dict[str, asyncio.Task[CheckResult]] = {}
        self._asked_at: dict[str, float] = {}
        self._answers: Counter[tuple[str, str]] = Counter()
        self._main: asyncio.Task[None] | None = None

    # Start and stop

    def begin(self, control: Control) -> None:
        """Start to ask the needed checks, and give the results to `control`."""
        self._control = control
        if self._checks:
            self._main = asyncio.create_task(self._ask_needed())

    async def end(self) -> None:
        """Ask nothing more, and kill the running programs."""
        self._programs.stop()
        tasks: list[asyncio.Task[Any]] = [
            *filter(None, [self._main]),
            *self._open.values(),
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # admin.gateways.CheckGateway

    async def checks(self) -> Sequence[dict[str, Any]]:
        """Return the state of each check."""
        now = self._clock.now()
        return [
            self._report(check, self.board.latest(check.name, now=now))
            for check in self._checks.values()
        ]

    async def run_check(self, name: str) -> dict[str, Any]:
        """Ask a check now, and return its result; raises NotFoundError."""
        if name not in self._checks:
            raise NotFoundError(
                f"there is no check {name}",
                hint="Run `forewarn check list` to see the checks of forewarn.toml.",
            )
        return self._report(self._checks[name], await asyncio.shield(self._begin(name)))

    def _report(self, check: CheckSettings, result: CheckResult) -> dict[str, Any]:
        is_asked = self.board.last(check.name) is not None
        return {
            "name": check.name,
            "kind": check.kind,
            "asks": asks(check),
            "every": format_duration(check.every),
            "timeout": format_duration(check.timeout),
            "needed": check.name in self.board.needed,
            "outcome": result.outcome.value,
            "reason": result.reason,
            "asked": instant_or_none(result.at if is_asked else 0),
        }

    # Metrics

    def readings(self) -> list[Reading]:
        """Return the number of answers of each check, by outcome."""
        return [
            Reading(
                metric_definitions.CHECK_ANSWERS,
                {
                    (name, outcome.value): self._answers[name, outcome.value]
                    for name in self._checks
                    for outcome in Outcome
                },
            )
        ]

    # Questions

    async def _ask_needed(self) -> None:
        while True:
            now = self._clock.monotonic()
            for name in self.board.needed:
                last, every = self._asked_at.get(name), self._checks[name].every
                if last is None or now - last >= every / SECOND:
                    self._begin(name)
            await asyncio.sleep(limits.ROUND_SECONDS)

    def _begin(self, name: str) -> "asyncio.Task[CheckResult]":
        """Return the open question of a check, or a new one."""
        task = self._open.get(name)
        if task is None:
            self._asked_at[name] = self._clock.monotonic()
            task = self._open[name] = asyncio.create_task(self._ask(self._checks[name]))
            task.add_done_callback(lambda _: self._open.pop(name, None))
        return task

    async def _ask(self, check: CheckSettings) -> CheckResult:
        at = self._clock.now()
        judged = await self._judged(check)
        result = CheckResult(
            name=check.name, outcome=judged.outcome, reason=judged.reason, at=at
        )
        self._answers[check.name, result.outcome.value] += 1
        last = self.board.last(check.name)
        if last is None or last.outcome is not result.outcome:
            logger.info(
                "check %s: %s: %s", check.name, result.outcome.value, result.reason
            )
        # A result that is lost becomes too old, and the next question has another.
        with contextlib.suppress(BusyError, StoppedError):
            if self._control is not None:
                await self._control(lambda plane, _now: _take(plane, result))
        return result

    async def _judged(self, check: CheckSettings) -> Judged:
        """Ask in a thread; give it up if it hangs where no deadline holds."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[Judged] = loop.create_future()

        def hand_over(judged: Judged) -> None:
            if not answered.done():
                answered.set_result(judged)

        def act() -> None:
            if answered.done():
                return
            try:
                judged = ask(check, clock=self._clock, programs=self._programs)
            except Exception:
                logger.exception("check %s cannot be asked", check.name)
                judged = unknown("a bug in forewarn, which the log describes")
            # A closed loop raises this; then no caller is left.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(hand_over, judged)

        errand = self._errands.run(act)
        seconds = check.timeout / SECOND + limits.GRACE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                return await answered
        except TimeoutError:
            if errand.began is not None:
                self._errands.give_up(errand)
            return unknown(
                f"no answer within {seconds:g} s: its thread hangs, or too many others do"
            )


def _take(plane: Plane, result: CheckResult) -> None:
    plane.checks.take(result)


def asks(check: CheckSettings) -> str:
    """Return what a check asks, without secrets."""
    if Kind(check.kind) is Kind.COMMAND:
        return shlex.join(check.program)
    url = without_secrets(check.url)
    if Kind(check.kind) is Kind.PROMQL:
        bounds = Bounds(below=check.below, above=check.above)
        return f"{check.query} {bounds.text}, at {url}"
    text = f" with {check.contains!r}" if check.contains else ""
    return f"{url}: {check.status}{text}"
