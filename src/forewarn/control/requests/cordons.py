"""Cordon and open hosts: a cordoned host takes no new VM.

A cordon belongs to the actor that requested it. A host can have several, and is open
when none is left, so that one operator does not open a host that another still needs
closed. VMs that are on the host stay there. A fleet file does not change cordons.
"""

from dataclasses import replace

from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Cordon, Host
from forewarn.problems import listed
from forewarn.protocol.actors import Actor
from forewarn.protocol.errors import RefusedError
from forewarn.store.records import AuditKind


def cordon(work: Work, name: str) -> Host:
    """Cordon a host for the actor; raises RefusedError if it has cordoned it already."""
    host = work.host(name)
    mine = _cordon_of(host, work.who.actor)
    if mine is not None:
        owner = mine.by.text + (f" ({mine.reason})" if mine.reason else "")
        raise RefusedError(
            f"host {name} is already cordoned by {owner}",
            hint=f"Run `forewarn host open {name}` first to change the reason.",
        )
    new = Cordon(by=work.who.actor, reason=work.who.reason, at=work.now)
    return _save(work, host, (*host.cordons, new), AuditKind.HOST_CORDONED)


def cordon_for_work(work: Work, name: str) -> Host:
    """Cordon a host for the actor, unless it has cordoned it already."""
    host = work.host(name)
    return host if _cordon_of(host, work.who.actor) else cordon(work, name)


def open_host(work: Work, name: str, *, by_all: bool) -> Host:
    """Remove the actor's cordon of a host, or those of all actors.

    Operations that wait for capacity are checked if no cordon is left. Raises RefusedError
    if there is no such cordon.
    """
    host = work.host(name)
    left = (
        ()
        if by_all
        else tuple(each for each in host.cordons if not each.is_of(work.who.actor))
    )
    if not host.cordons:
        raise RefusedError(
            f"host {name} is not cordoned",
            hint="Run `forewarn fleet show` to see the state of each host.",
        )
    if left == host.cordons:
        owners = listed([each.by.text for each in left])
        raise RefusedError(
            f"host {name} is cordoned by {owners}, not by {work.who.actor.text}",
            hint=f"Run `forewarn host open {name} --all-owners` to remove their cordons.",
        )
    opened = _save(work, host, left, AuditKind.HOST_OPENED)
    if not left:
        work.free_room()
    return opened


def _cordon_of(host: Host, actor: Actor) -> Cordon | None:
    return next((each for each in host.cordons if each.is_of(actor)), None)


def _save(work: Work, host: Host, cordons: tuple[Cordon, ...], kind: AuditKind) -> Host:
    work.note(kind, (f"host:{host.name}",))
    work.rooms.change_host(host.name)
    return work.tx.replace(host, replace(host, cordons=cordons))
