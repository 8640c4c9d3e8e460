"""Answers that take long to read, shared by callers who ask for the same.

Callers who ask at the same time share each answer, and later ones share a slow one.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any

from forewarn.admin import limits


class SharedReads:
    """Answers by what was asked, each kept in proportion to the time that it took.

    An answer that is given again is at most `limits.SHARED_SECONDS_MAX` old, and at most
    `limits.SHARED_ANSWERS_MAX` are kept.

    All callers have the same rights: the key must have all that the answer depends on.
    """

    def __init__(self) -> None:
        """Keep no answer yet."""
        self._answers: dict[Hashable, asyncio.Task[Any]] = {}
        self._good_until: dict[Hashable, float] = {}

    async def get(self, key: Hashable, read: Callable[[], Awaitable[Any]]) -> Any:
        """Return the answer of `read`, or a recent one for the same key.

        `read` must not depend on the caller: others get its answer too. An error is
        given to the callers who wait for it, and is not kept.
        """
        now = asyncio.get_running_loop().time()
        for old in [each for each, end in self._good_until.items() if end < now]:
            del self._good_until[old], self._answers[old]
        if key not in self._answers:
            self._answers[key] = asyncio.ensure_future(self._read(key, read))
        return await asyncio.shield(self._answers[key])

    async def _read(self, key: Hashable, read: Callable[[], Awaitable[Any]]) -> Any:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            found = await read()
        except BaseException:
            del self._answers[key]
            raise
        took = clock() - began
        if took < limits.SHARED_FROM_SECONDS:
            del self._answers[key]
        else:
            # The answer is as old as its read.
            pause = min(limits.SHARED_PAUSE * took, limits.SHARED_SECONDS_MAX - took)
            self._good_until[key] = clock() + pause
            while len(self._good_until) > limits.SHARED_ANSWERS_MAX:
                oldest = next(iter(self._good_until))
                del self._good_until[oldest], self._answers[oldest]
        return found
