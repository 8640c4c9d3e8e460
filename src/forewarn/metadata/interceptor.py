"""Somebody who stands between VMs and the endpoint: the port, and what it may order.

It sees each request before the endpoint does, and each answer before the VM does.
It may keep a request from arriving, put another answer in the place of the genuine
one, and say how the bytes go out. A service has none, and its connections know
nothing of this; a simulator plays faults and keeps its journal here.

Nothing here knows which faults there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from forewarn.instants import Micros
from forewarn.metadata.cached_response import CachedResponse
from forewarn.metadata.http import Request, Response
from forewarn.metadata.identity import Source

Again: TypeAlias = Callable[[CachedResponse, float], bool]
"""Asked for each request of a poller, with the I/O time: may the answer that stands be
given once more? If so, that is noted, and counted against the limit."""


class InterceptedRequest(NamedTuple):
    """One request, as it arrives."""

    now: Micros
    """The model time."""
    io_time: float
    """The loop's own seconds: they pass also where model time stands still."""
    source: Source
    vm: str
    """The key of the VM that asks; empty: a stranger."""
    request: Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast an answer goes out."""

    size: int
    """Bytes that go together."""
    seconds: float
    """Between two such parts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is done with one request and its answer."""

    arrives: bool = True
    """Whether the endpoint gets the request. If not, nothing comes of it: the
    approval in it is lost, and the VM was not seen."""
    in_full: bool = False
    """The endpoint is asked as if `If-None-Match` had not been sent."""
    delay_seconds: float = 0.0
    """Before the answer goes out; it is made at once."""
    pace: Pace | None = None
    cut_after: int | None = None
    """The connection is reset after this many bytes of the answer, or after half
    of it where it has no more."""


class Interceptor(Protocol):
    """Who stands in front of the endpoint. It is called on the server's loop."""

    def refuses(self, source: Source, vm: str) -> bool:
        """Tell whether a new connection is reset; `vm` as in a visit."""
        ...

    def take(self, visit: InterceptedRequest) -> Plan | None:
        """Say what is done with a request; None: it takes its usual way."""
        ...

    def answer(
        self, visit: InterceptedRequest, plan: Plan | None, genuine: Response | None
    ) -> Response | None:
        """Return what is sent in the place of `genuine`, which may be itself.

        `genuine` is None where the request did not arrive. To return None is to
        say nothing, on a connection that stays, or is reset if the plan says so.
        """
        ...

    def repeating(
        self,
        visit: InterceptedRequest,
        standing: CachedResponse,
        *,
        now: Micros,
        monotonic: float,
    ) -> Again | None:
        """Return what is asked, while `standing` is there, when `visit` comes again.

        None: it is handled anew each time. The present instant is given as model
        time and as I/O time, so that one can be told of the other.
        """
        ...

    def unanswered(self, visit: InterceptedRequest, plan: Plan | None) -> None:
        """Hear that the client went before its answer was there."""
        ...

    def unread(
        self, source: Source, vm: str, request: Request | None, refusal: Response
    ) -> None:
        """Hear of a request that was refused before it was read in full."""
        ...
