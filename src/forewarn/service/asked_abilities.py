"""Asks the driver again what can be done on hosts, before a campaign is planned."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from forewarn.control.ability_link import AbilityLink
from forewarn.control.plane import Plane
from forewarn.protocol.errors import ForewarnError
from forewarn.service import limits
from forewarn.service.runner import Runner

LOOK_SECONDS = 0.05
"""Seconds between two looks whether the driver has answered: an answer about 50 hosts
takes at least as long."""


def asking(runner: Runner) -> Callable[[], Awaitable[None]]:
    """Return a function that asks, and waits for the answers for some seconds."""

    async def ask() -> None:
        # A plan of a busy or stopping service uses the last answers.
        with contextlib.suppress(ForewarnError, TimeoutError):
            async with asyncio.timeout(limits.ABILITIES_SECONDS):
                if not await runner.call(lambda plane, _: _begin(plane.abilities)):
                    return
                runner.wake()
                while await runner.call(_is_asking):  # noqa: ASYNC110 - in another thread
                    await asyncio.sleep(LOOK_SECONDS)

    return ask


def _begin(link: AbilityLink) -> bool:
    link.want_before_plan()
    return link.is_asking


def _is_asking(plane: Plane, _: int) -> bool:
    return plane.abilities.is_asking
