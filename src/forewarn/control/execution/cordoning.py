"""Add and remove cordons of hosts, with their history entries and capacity."""

from collections.abc import Iterable
from dataclasses import replace

from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Cordon, Host
from forewarn.protocol.actors import Actor
from forewarn.store.records import AuditKind


def add(
    work: Work,
    host: Host,
    *,
    owner: Actor,
    reason: str,
    subjects: Iterable[str] = (),
) -> Host:
    """Cordon a host for an owner that has no cordon of it.

    `subjects` are further subjects of the history entry.
    """
    cordon = Cordon(by=owner, reason=reason, at=work.now)
    cordons = (*host.cordons, cordon)
    return _save(work, host, cordons, AuditKind.HOST_CORDONED, subjects)


def keep(
    work: Work, host: Host, left: tuple[Cordon, ...], subjects: Iterable[str] = ()
) -> Host:
    """Remove all cordons of a host but `left`.

    Operations that wait for capacity are checked if none is left.
    """
    opened = _save(work, host, left, AuditKind.HOST_OPENED, subjects)
    if not left:
        work.free_room()
    return opened


def remove(
    work: Work, name: str, *, owner: Actor, subjects: Iterable[str] = ()
) -> None:
    """Remove the owner's cordon of a host, if it has one."""
    host = work.tx.get(Host, name)
    if host is None or host.cordon_of(owner) is None:
        return
    left = tuple(cordon for cordon in host.cordons if not cordon.by.is_same_as(owner))
    keep(work, host, left, subjects)


def _save(
    work: Work,
    host: Host,
    cordons: tuple[Cordon, ...],
    kind: AuditKind,
    subjects: Iterable[str],
) -> Host:
    work.note(kind, (f"host:{host.name}", *subjects))
    work.rooms.change_host(host.name)
    return work.tx.replace(host, replace(host, cordons=cordons))
