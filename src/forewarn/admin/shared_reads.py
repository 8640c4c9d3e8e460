"""Answers that take long to read, shared by callers who ask for the same.

Callers who ask at the same time share each answer, and later ones share a slow one. A
caller that follows the stream says which age is recent enough, and shares any answer that
is younger.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, cast

from starlette.requests import Request
from starlette.responses import Response

from forewarn.admin import limits
from forewarn.admin.answers import answer

_MAX_AGE = re.compile(r"(?:^|[\s,])max-age=(\d{1,9})(?:$|[\s,])")


class SharedReads:
    """Answers by what was asked, each kept in proportion to the time that it took.

    An answer that is given again is at most `limits.SHARED_SECONDS_MAX` old, and at most
    `limits.SHARED_ANSWERS_MAX` are kept.

    All callers have the same rights: the key must have all that the answer depends on.
    """

    def __init__(self) -> None:
        """Keep no answer yet."""
        self._reading: dict[Hashable, asyncio.Task[Any]] = {}
        self._kept: dict[Hashable, _Kept] = {}
        """The latest answers, the oldest first."""

    async def get(
        self,
        key: Hashable,
        read: Callable[[], Awaitable[Any]],
        *,
        max_age: float = 0.0,
    ) -> Any:
        """Return the answer of `read`, or a recent one for the same key.

        An answer that began to be read less than `max_age` seconds ago is recent, and at
        most `limits.SHARED_SECONDS_MAX` ago. `read` must not depend on the caller: others
        get its answer too. An error is given to the callers who wait for it, and is not
        kept.
        """
        now = asyncio.get_running_loop().time()
        while self._kept and (oldest := next(iter(self._kept.items())))[1].ends < now:
            del self._kept[oldest[0]]
        cached = self._kept.get(key)
        if cached and now < min(
            cached.ends, max(cached.good_until, cached.began + max_age)
        ):
            return cached.answer
        if key not in self._reading:
            self._reading[key] = asyncio.ensure_future(self._read(key, read))
        return await asyncio.shield(self._reading[key])

    async def _read(self, key: Hashable, read: Callable[[], Awaitable[Any]]) -> Any:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            result = await read()
        finally:
            del self._reading[key]
        took = clock() - began
        is_slow = took >= limits.SHARED_FROM_SECONDS
        pause = limits.SHARED_PAUSE * took if is_slow else 0.0
        # The answer is as old as its read.
        ends = began + limits.SHARED_SECONDS_MAX
        self._kept.pop(key, None)
        self._kept[key] = _Kept(result, began, min(clock() + pause, ends), ends)
        if len(self._kept) > limits.SHARED_ANSWERS_MAX:
            del self._kept[next(iter(self._kept))]
        return result


class _Kept(NamedTuple):
    """An answer, and times of the event loop."""

    answer: Any
    began: float
    """When it began to be read."""
    good_until: float
    """Until then all callers get it."""
    ends: float
    """From then on it is too old for any caller."""


async def shared_answer(
    request: Request, key: Hashable, read: Callable[[], Awaitable[Any]]
) -> Response:
    """Return an answer that all callers share, after their rights were checked.

    `Cache-Control: max-age` of the request has the seconds that the answer may be old.
    It is written once for all.
    """
    shared = cast("SharedReads", request.app.state.shared_reads)

    async def written() -> Response:
        return answer(await read())

    wanted = _MAX_AGE.search(request.headers.get("cache-control", ""))
    max_age = float(wanted[1]) if wanted else 0.0
    return await shared.get(key, written, max_age=max_age)
