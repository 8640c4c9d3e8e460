"""How a running service keeps its supervisor's watchdog quiet.

It is fed only while the control thread gives signs of life, from the event loop:
if either of them stands still, the service is killed and started anew on what is
durable.
"""

import asyncio
import logging
from collections.abc import Callable

from forewarn.supervisor import Supervisor

logger = logging.getLogger("forewarn.service")


async def keep_telling(
    supervisor: Supervisor, is_alive: Callable[[], bool], status: Callable[[], str]
) -> None:
    """Feed the watchdog as long as the service is alive."""
    while True:
        if is_alive():
            supervisor.tell("WATCHDOG=1", f"STATUS={status()}")
        else:
            logger.error("no sign of life: the watchdog is not fed")
        await asyncio.sleep(supervisor.pause)
