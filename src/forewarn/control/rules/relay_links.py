"""Decide whether planned work waits for the relays of the hosts that it touches.

A relay shows the VMs of its host their events. If it is away or has not confirmed the
last changes, its VMs may not know of the work. So planned work waits for it, as it does
for blackouts; emergencies, failures and requests of users do not. A host whose relay has no
valid token, or has never connected, has none. For the same reason, the search for hosts
avoids those with a silent relay. This module only reads.
"""

from collections.abc import Callable, Iterable, Iterator

from forewarn.control.rules import wide_blackouts
from forewarn.fleet.model import Vm, taken_by
from forewarn.instants import Micros
from forewarn.protocol.blockers import RelaySilent
from forewarn.protocol.operations import Operation
from forewarn.store import kinds
from forewarn.store.port import Reader, every
from forewarn.store.records import LEADER_KEY, Leader
from forewarn.store.relay_links import RelayLink


def why_silent(
    reader: Reader, operation: Operation, vms: Iterable[Vm], *, now: Micros
) -> tuple[RelaySilent, ...]:
    """Return the relays that an operation on these VMs waits for."""
    if not wide_blackouts.is_stopped(operation):
        return ()
    if not reader.select(kinds.ALL_RELAY_LINKS, limit=1):
        return ()
    # A destination with a silent relay is replaced by another one.
    destinations = {move.to_host for move in operation.moves}
    hosts = {host for vm in vms for host in taken_by(vm) - (destinations - {vm.host})}
    links = (
        link
        for host in sorted(hosts)
        for link in reader.select(kinds.RELAY_OF_HOST, host)
    )
    return tuple(
        RelaySilent(host=link.host, since=link.silent_since)
        for link in links
        if (link.silent_since or not _is_heard_now(reader, link))
        and _has_token(reader, link.host, now=now)
    )


def silent_hosts(reader: Reader) -> Callable[[str], bool]:
    """Return a question: whether a host has a relay that is silent.

    A token counts until it is revoked, since a search for hosts has no time.
    """
    if not reader.select(kinds.ALL_RELAY_LINKS, limit=1):
        return lambda _host: False

    def is_silent(host: str) -> bool:
        return any(
            (link.silent_since or not _is_heard_now(reader, link))
            and _has_token(reader, host, now=0)
            for link in reader.select(kinds.RELAY_OF_HOST, host)
        )

    return is_silent


def _is_heard_now(reader: Reader, link: RelayLink) -> bool:
    """Return whether the relay was heard in the present term."""
    leader = reader.get(Leader, LEADER_KEY)
    return leader is not None and link.term == leader.term


def all_silent(reader: Reader, *, now: Micros) -> Iterator[tuple[str, Micros]]:
    """Yield the hosts whose relays are silent, and since when."""
    for link in every(reader, kinds.RELAYS_SILENT):
        if _has_token(reader, link.host, now=now):
            yield link.host, link.silent_since


def _has_token(reader: Reader, host: str, *, now: Micros) -> bool:
    return any(
        not token.is_expired(now=now)
        for token in every(reader, kinds.TOKENS_OF_RELAY, host)
    )
