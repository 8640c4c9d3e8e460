"""Store what the driver tells about hosts and the VMs on them."""

from collections.abc import Mapping

from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Host
from forewarn.protocol.abilities import Ability
from forewarn.protocol.frozen import changed
from forewarn.store.host_abilities import HostAbilities
from forewarn.store.port import Reader


def news_in(
    reader: Reader, told: Mapping[str, tuple[Ability, ...]]
) -> dict[str, tuple[Ability, ...]]:
    """Return the answers that differ from the stored ones. Most repeat them."""
    changed: dict[str, tuple[Ability, ...]] = {}
    for host, answer in told.items():
        known = reader.get(HostAbilities, host)
        if known is None or known.told != answer:
            changed[host] = answer
    return changed


def take_told(work: Work, told: Mapping[str, tuple[Ability, ...]]) -> None:
    """Store answers that differ from the last ones.

    A host can have been removed since the question. If something was ruled out before,
    hosts that wait because of it are checked again.
    """
    for host, answer in sorted(told.items()):
        if work.tx.get(Host, host) is None:
            continue
        known = work.tx.get(HostAbilities, host)
        if known is None:
            work.tx.add(HostAbilities(host=host, told=answer, since=work.now))
        elif known.told != answer:
            work.tx.replace(known, changed(known, told=answer, since=work.now))
            if known.rules_out_something:
                work.free_room()


def forget(work: Work, host: str) -> None:
    """Remove what the driver told about a removed host."""
    known = work.tx.get(HostAbilities, host)
    if known is not None:
        work.tx.remove(known)
