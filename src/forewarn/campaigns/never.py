"""Why a host of a campaign can never begin: values in, values out.

Windows can be too short, or blackouts can cover every opening. Only the blackouts that
are needed to leave no time are named, so that an operator knows which to change.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from forewarn.fleet.blackouts import Blackout
from forewarn.fleet.calendars import Calendar
from forewarn.fleet.windows import Window
from forewarn.instants import Micros, describe_duration
from forewarn.problems import listed
from forewarn.protocol.errors import RefusedError
from forewarn.texts import count

if TYPE_CHECKING:
    # A service that plans nothing does not load it.
    from forewarn.campaigns.part_blackouts import StoppedPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The needs of a host, and the times that the campaign keeps to."""

    at: Micros
    notice: Micros
    work: Micros
    """Time from the start on that must fit into a window and avoid blackouts."""
    windows: tuple[Window, ...] = ()
    own: tuple[Blackout, ...] = ()
    """The blackouts of the campaign."""
    wide: tuple[Blackout, ...] = ()
    """Those of the service that stop the whole fleet."""

    def fits(self, blackouts: Sequence[Blackout]) -> bool:
        """Return whether a host can ever begin with these blackouts."""
        calendar = Calendar(self.windows, self.at, blackouts)
        return calendar.next_notice(self.at, self.notice, self.work) is not None


def needed(needs: Needs, blackouts: Iterable[Blackout]) -> tuple[Blackout, ...]:
    """Return the blackouts that together leave no time, without those that need not be
    there.

    All of them leave no time, and the windows alone do.
    """
    left = list(dict.fromkeys(blackouts))
    for blackout in tuple(left):
        others = [other for other in left if other is not blackout]
        if not needs.fits(others):
            left = others
    return tuple(left)


def refusal(needs: Needs, parts: "Sequence[StoppedPart]" = ()) -> RefusedError:
    """Return why the hosts of a campaign can never begin.

    `parts` are the blackouts of the service that stop some of them.
    """
    takes = f"which takes up to {describe_duration(needs.work)} after its notice"
    if not needs.fits(()):
        return RefusedError(
            f"no window is long enough for a host, {takes}",
            hint="Lengthen [[campaign.window]], or correct [campaign.expect].",
        )
    closed = (*needs.own, *needs.wide)
    hosts: frozenset[int] = frozenset()
    if needs.fits(closed):
        hosts, banning = _stopped(parts, lambda more: not needs.fits([*closed, *more]))
        closed = (*closed, *banning)
    if needs.fits(closed):
        # A host that waits for others finds no time later.
        return RefusedError(
            f"no window outside the blackouts is long enough for a host, {takes}",
            hint="Lengthen [[campaign.window]], or correct [campaign.expect].",
        )
    banned = needed(needs, closed)
    subject = count(len(hosts), "host") if hosts else "a host"
    return RefusedError(
        f"no opening ever comes for {subject}, {takes}: {_no_time(needs, banned)}",
        hint=_hint(needs, banned, has_hosts=bool(hosts)),
    )


def _no_time(needs: Needs, banned: Sequence[Blackout]) -> str:
    named = listed([f"blackout {blackout.name}" for blackout in banned])
    verb = "leaves" if len(banned) == 1 else "leave"
    return f"{named} {verb} no time{' in its windows' if needs.windows else ''}"


def _stopped(
    parts: "Sequence[StoppedPart]", is_never: Callable[[Sequence[Blackout]], bool]
) -> tuple[frozenset[int], tuple[Blackout, ...]]:
    """Return the hosts that the same blackouts of a part stop always, and these."""
    over: dict[int, list[Blackout]] = {}
    for part in parts:
        for host in part.hosts:
            over.setdefault(host, []).append(part.blackout.time)
    together: dict[tuple[Blackout, ...], set[int]] = {}
    for host, blackouts in over.items():
        together.setdefault(tuple(blackouts), set()).add(host)
    for blackouts, hosts in together.items():
        if is_never(blackouts):
            return frozenset(hosts), blackouts
    return frozenset(), ()


def _hint(needs: Needs, banned: Sequence[Blackout], *, has_hosts: bool) -> str:
    """Return how an operator gets time, for each kind of blackout."""
    advice: list[str] = []
    if own := [blackout.name for blackout in banned if blackout in needs.own]:
        advice.append(f"shorten [[campaign.blackout]] {listed(own)} in the file")
    advice += [
        f"run `forewarn blackout remove {blackout.name} --reason TEXT`"
        for blackout in banned
        if blackout not in needs.own
    ]
    if has_hosts:
        advice.append("exclude these hosts with [campaign.select] except")
    text = ", or ".join(advice)
    return f"{text[0].upper()}{text[1:]}."
