"""Store whether relays have confirmed what their VMs must see.

Relays confirm to the operator API, which reports here when that changes.
"""

from collections.abc import Mapping

from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host
from forewarn.instants import Micros
from forewarn.protocol.frozen import changed
from forewarn.store.records import LEADER_KEY, Leader
from forewarn.store.relay_links import RelayLink


def take(work: Work, silent_since: Mapping[str, Micros]) -> None:
    """Store since when the relays of hosts have been silent; 0: they are not.

    Work that waits for a relay is checked again when it is not silent any longer. A host
    can have been removed since the report.
    """
    leader = work.tx.get(Leader, LEADER_KEY)
    assert leader is not None, "a transaction has a term"
    for host, since in sorted(silent_since.items()):
        known = work.tx.get(RelayLink, host)
        if known is None:
            if work.tx.get(Host, host) is not None:
                work.tx.add(RelayLink(host=host, term=leader.term, silent_since=since))
            continue
        new = changed(known, term=leader.term, silent_since=since)
        if new != known:
            work.tx.replace(known, new)
            if not since:
                work.free_relay(host)
                work.free_room()


def forget(work: Work, host: str) -> None:
    """Remove the relay of a removed host."""
    known = work.tx.get(RelayLink, host)
    if known is not None:
        work.tx.remove(known)
