"""The blackouts of the service for which work waits so long that it can be forgotten.

A blackout is planned, like a window: one that holds work until the evening is not a
problem. For operators.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator

from forewarn.control.rules import campaign_gate, wide_blackouts
from forewarn.fleet.blackouts import clash
from forewarn.instants import DAY, Micros
from forewarn.protocol.blockers import InBlackout
from forewarn.protocol.operations import Request
from forewarn.reporting import held
from forewarn.reporting.problem import Problem, ProblemKind
from forewarn.store.port import Reader
from forewarn.wording import holds

LONG: Micros = DAY
"""Time that work must still wait for a blackout to be a problem: no window of a night or
a working day is as long."""


def problems(reader: Reader, *, now: Micros) -> Iterator[Problem]:
    """Yield the blackouts that hold work for a day from now on, or without an end."""
    blackouts = wide_blackouts.all_of(reader)
    if not blackouts:
        return
    hosts, until, campaigns = _held(reader, now)
    for blackout in blackouts:
        ends = until.get(blackout.name)
        if ends is None or (ends and ends < now + LONG):
            continue
        current = clash([blackout.time], now, now)
        names = sorted(campaigns[blackout.name])
        yield Problem(
            kind=ProblemKind.BLACKOUT,
            name=blackout.name,
            text=holds.long_blackout(
                blackout.name,
                by=blackout.by.text,
                reason=blackout.reason,
                hosts=hosts[blackout.name],
                until=ends,
                campaigns=names,
            ),
            campaign=names[0] if len(names) == 1 else "",
            since=0 if current is None else current.begins,
            actions=("blackout remove",),
        )


def _held(
    reader: Reader, now: Micros
) -> tuple[Counter[str], dict[str, Micros], dict[str, set[str]]]:
    """Return the hosts that each blackout holds, when the last of them can go on, and the
    campaigns of these hosts.

    0 is never.
    """
    hosts, until = Counter[str](), dict[str, Micros]()
    campaigns = defaultdict[str, set[str]](set)
    all_held = held.by_blackouts(reader, now=now) + held.by_campaigns(reader, now=now)
    for hold in all_held:
        blocker = hold.blocker
        if isinstance(blocker, InBlackout) and not blocker.campaign:
            name = blocker.blackout
            hosts[name] += hold.hosts
            before = until.get(name, hold.until)
            until[name] = max(before, hold.until) if before and hold.until else 0
            campaigns[name].update(_campaigns_of(reader, hold))
    return hosts, until, campaigns


def _campaigns_of(reader: Reader, found: held.Held) -> Iterator[str]:
    """Yield the names of the campaigns whose hosts a blackout holds."""
    if found.campaign:
        yield found.campaign
    for name in found.requests:
        campaign = campaign_gate.campaign_of(reader, reader.get(Request, name))
        if campaign is not None:
            yield campaign.name
