"""Rules of the brake, of the losses that it counts, of the tallies, and of the blackouts
of the service."""

from collections import Counter
from collections.abc import Iterator

from forewarn.fleet.blackout_fields import blackout_of, line_of_blackout
from forewarn.fleet.room_tallies import tallied
from forewarn.protocol.actors import ActorKind
from forewarn.store.contents import Contents, violated
from forewarn.store.records import (
    BRAKE_KEY,
    FLEET_HOSTS,
    LOST_HOST,
    LOST_VM,
    Brake,
    Loss,
)
from forewarn.store.wide_blackouts import WideBlackout


def brake(contents: Contents) -> Iterator[str]:
    """Report a brake or losses that no decision can have stored."""
    for stored in contents.brakes.values():
        yield from violated(*_wrong_brake(stored))
    for loss in contents.losses.values():
        yield from violated(*_wrong_loss(loss))


def _wrong_brake(found: Brake) -> Iterator[tuple[bool, str]]:
    me = "the brake"
    by_itself = found.by.kind is ActorKind.SERVICE
    yield found.name != BRAKE_KEY, f"{me} has the name {found.name!r}"
    yield found.by.kind is ActorKind.PLATFORM, f"the actor of {me} is redacted"
    yield found.since <= 0, f"{me} has no time"
    yield not by_itself and not found.reason, f"{me} has no reason"
    yield by_itself and found.losses is None, f"{me} came on by itself without losses"
    yield (
        found.losses is not None and not found.withdraws,
        f"{me} has losses but holds announced work, instead of withdrawing it",
    )
    yield (
        found.due_at != 0 and not by_itself,
        f"{me} of an operator has a time at which it is taken off",
    )


def _wrong_loss(loss: Loss) -> Iterator[tuple[bool, str]]:
    me = f"loss {loss.name}"
    is_host = loss.name.startswith(LOST_HOST)
    is_vm = loss.name.startswith(LOST_VM)
    yield not (is_host or is_vm), f"{me} is neither of a host nor of a VM"
    yield is_vm and loss.rack != "", f"{me} of a VM has a rack"
    yield loss.due_at <= 0, f"{me} has no time at which it is forgotten"


def blackouts(contents: Contents) -> Iterator[str]:
    """Report blackouts that no decision can have stored."""
    for blackout in contents.blackouts.values():
        yield from violated(*_wrong_blackout(blackout))


def _wrong_blackout(found: WideBlackout) -> Iterator[tuple[bool, str]]:
    me = f"blackout {found.name}"
    yield found.time.name != found.name, f"{me} has the time of {found.time.name}"
    yield found.by.kind is ActorKind.PLATFORM, f"the actor of {me} is redacted"
    yield found.since <= 0, f"{me} has no time at which it was set"
    yield not found.reason, f"{me} has no reason"
    yield (
        any("=" not in place for place in found.places),
        f"{me} has a place without a kind",
    )
    yield from ((True, f"{me} {place}") for place in _unreadable(found))


def _unreadable(found: WideBlackout) -> Iterator[str]:
    """Yield that a blackout has a time that nothing can compute."""
    try:
        blackout_of(line_of_blackout(found.time))
    except ValueError as error:
        yield f"has no valid time: {error}"


def tallies(contents: Contents) -> Iterator[str]:
    """Report tallies that differ from the number of their records."""
    right = Counter(name for loss in contents.losses.values() for name in loss.tallies)
    right[FLEET_HOSTS] = len(contents.hosts)
    for room in contents.rooms.values():
        right.update(dict(tallied(room)))
    stored = {name: tally.count for name, tally in contents.tallies.items()}
    for name in sorted(right.keys() | stored.keys()):
        if right[name] != stored.get(name, 0) or stored.get(name) == 0:
            yield f"there are {right[name]} {name}, but their tally is {stored.get(name)}"
