"""Cordon and open hosts: a cordoned host takes no new VM.

A cordon belongs to the actor that requested it. A host can have several, and is open
when none is left, so that one operator does not open a host that another still needs
closed. Any operator removes the cordon that a campaign left behind. VMs that are on the
host stay there. A fleet file does not change cordons.
"""

from forewarn.control.execution import cordoning
from forewarn.control.rules import campaign_gate, left_cordons
from forewarn.control.transactions.work import Work
from forewarn.fleet.model import Cordon, Host
from forewarn.problems import listed
from forewarn.protocol.actors import ActorKind
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.visits import is_visit_id
from forewarn.store import kinds


def cordon(work: Work, name: str) -> Host:
    """Cordon a host for the actor; raises RefusedError if it has cordoned it already."""
    host = work.host(name)
    own_cordon = host.cordon_of(work.who.actor)
    if own_cordon is not None:
        owner = own_cordon.by.text + (
            f" ({own_cordon.reason})" if own_cordon.reason else ""
        )
        raise RefusedError(
            f"host {name} is already cordoned by {owner}",
            hint=f"Run `forewarn host open {name}` first to change the reason.",
        )
    return cordoning.add(work, host, owner=work.who.actor, reason=work.who.reason)


def cordon_for_work(work: Work, name: str) -> Host:
    """Cordon a host for the actor, unless it has cordoned it already."""
    host = work.host(name)
    return host if host.cordon_of(work.who.actor) else cordon(work, name)


def open_host(work: Work, name: str, *, by_all: bool) -> Host:
    """Remove the actor's cordon of a host, or those of all actors.

    A cordon of a campaign that has ended or has skipped the host is removed too.
    Operations that wait for capacity are checked if no cordon is left. Raises RefusedError
    if there is no such cordon.
    """
    host = work.host(name)
    left = tuple(
        other
        for other in host.cordons
        # The cordon of a visit ends with the visit.
        if _is_of_visit(other)
        or not (
            by_all
            or other.by.is_same_as(work.who.actor)
            or left_cordons.is_left_behind(work.tx, host, other)
        )
    )
    if not host.cordons:
        raise RefusedError(
            f"host {name} is not cordoned",
            hint="Run `forewarn fleet show` to see the state of each host.",
        )
    if left == host.cordons:
        owners = listed([other.by.text for other in left])
        for visit in work.tx.select(kinds.OPEN_VISITS_OF_HOST, name, limit=1):
            if all(map(_is_of_visit, left)):
                command = campaign_gate.skip_command(work.tx, visit)
                raise RefusedError(
                    f"host {name} is cordoned by {owners}, not by {work.who.actor.text}",
                    hint=f"Run `{command}` if the visit has failed.",
                )
        raise RefusedError(
            f"host {name} is cordoned by {owners}, not by {work.who.actor.text}",
            hint=f"Run `forewarn host open {name} --all-owners` to remove their cordons.",
        )
    return cordoning.keep(work, host, left)


def _is_of_visit(cordon: Cordon) -> bool:
    is_service = cordon.by.kind is ActorKind.SERVICE
    return is_service and is_visit_id(cordon.by.name)
