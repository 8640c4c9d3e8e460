"""Waiting for a database that does not answer.

A service that runs waits for its database, so a process that starts does too: systemd
gives up a service that ends again and again, and a database can be away for longer.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from forewarn.service import limits
from forewarn.store.port import LostError

T = TypeVar("T")

logger = logging.getLogger("forewarn.service")


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Do `work` again and again until the database answers; return its result.

    Raises what it raises, except LostError.
    """
    logged = ""
    while True:
        try:
            return await work()
        except LostError as error:
            if error.message != logged:
                logged = error.message
                logger.warning("waiting for the database: %s. %s", logged, error.hint)
        await asyncio.sleep(limits.DATABASE_AGAIN_SECONDS)
