"""Hosts whose cordons may be forgotten, for operators."""

from collections.abc import Iterator
from itertools import islice

from forewarn.control.rules import left_cordons
from forewarn.instants import DAY, Micros
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.wording import explained

HOSTS_MAX = 1_000
"""Maximum cordoned hosts that are read."""

CORDONED_LONG: Micros = DAY
"""Time after which a cordon can be forgotten work. A shorter one is usually planned."""


def problems(reader: Reader, *, now: Micros) -> Iterator[Problem]:
    """Yield the hosts with old cordons, and those that only campaigns left behind."""
    for host in islice(every(reader, kinds.HOSTS_CORDONED), HOSTS_MAX):
        is_left = all(
            left_cordons.is_left_behind(reader, host, cordon) for cordon in host.cordons
        )
        since = host.cordons[0].at
        if not is_left and now < since + CORDONED_LONG:
            continue
        yield Problem(
            kind=ProblemKind.HOST_CORDONED,
            name=host.name,
            text=f"host {host.name} {explained.cordoned(host)}"
            + (explained.LEFT_BEHIND if is_left else ""),
            since=since,
            target=host.name,
            hosts=(host.name,),
            actions=("host open",),
        )
