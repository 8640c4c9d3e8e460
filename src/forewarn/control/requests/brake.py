"""Put the brake on and take it off: while it is on, no planned work begins.

The brake is one record, so that it survives a crash at any place. An operator puts it on;
then announced work stays announced and does not start, unless the operator also withdraws
it. If more hosts or VMs are lost than `[brake]` allows, it comes on by itself in the
transaction of the loss that exceeds the limit, and announced work is withdrawn. Work that
has started continues.

Announced operations are withdrawn in pages after that transaction (`withdrawals`). Until
then the brake holds them, and the next start of the service withdraws the rest. When the
brake is taken off, the operations that it held are checked one after the other.
"""

from collections.abc import Sequence
from dataclasses import replace

from forewarn.campaigns.record import Halt, HaltCause
from forewarn.control.execution import campaign_ends, losses
from forewarn.control.transactions.work import Who, Work
from forewarn.fleet.model import Host
from forewarn.protocol.actors import Actor, ActorKind
from forewarn.protocol.errors import RefusedError
from forewarn.protocol.losses import Losses
from forewarn.store import kinds
from forewarn.store.port import every
from forewarn.store.records import BRAKE_KEY, AuditKind, Brake, Facts

SUBJECTS = ("brake:service",)

ITSELF = Actor(kind=ActorKind.SERVICE, name="brake")
"""The actor of a brake that came on by itself."""


def put_on(work: Work, *, withdraw: bool = False) -> Brake:
    """Put the brake on; with `withdraw`, withdraw announced planned work, too.

    An operator can take over a brake that came on by itself: then only an operator takes
    it off. Raises RefusedError without a reason, or if an operator has put it on already.
    """
    reason = work.who.reason
    if not reason:
        raise RefusedError("the brake needs a reason", hint="Add --reason TEXT.")
    current = work.tx.get(Brake, BRAKE_KEY)
    is_taken = current is not None and current.by != ITSELF
    if current is not None and is_taken and (current.withdraws or not withdraw):
        raise RefusedError(
            f"{current.by.text} has already put the brake on ({current.reason})",
            hint="Run `forewarn brake off` first to change the reason.",
        )
    work.note(AuditKind.BRAKE_ON, SUBJECTS)
    return _come_on(
        work,
        current,
        Brake(
            by=work.who.actor,
            reason=reason,
            since=current.since if current else work.now,
            withdraws=withdraw or (current is not None and current.withdraws),
            losses=current.losses if current else None,
        ),
    )


def take_off(work: Work) -> None:
    """Take the brake off, and check the work that it held; raises RefusedError.

    The count of losses starts again at 0.
    """
    current = work.tx.get(Brake, BRAKE_KEY)
    if current is None:
        raise RefusedError("the brake is not on")
    work.note(AuditKind.BRAKE_OFF, SUBJECTS)
    work.tx.remove(current)
    losses.forget_all(work)
    work.change_brake()
    work.free_brake()


def after_loss(work: Work, host: Host | None, vms: Sequence[str]) -> None:
    """Count a lost host, or none, and lost VMs; put the brake on if they are too many.

    While a brake withdraws work, nothing is counted, and each loss restarts its calm.
    """
    if host is None and not vms:
        return
    current = work.tx.get(Brake, BRAKE_KEY)
    if current is not None and current.withdraws:
        if current.due_at:
            calm = work.policy.brake.calm
            work.tx.replace(current, replace(current, due_at=work.now + calm))
            work.change_brake()
        return
    too_many = losses.add(work, host, vms)
    if too_many is not None:
        _come_on_by_itself(work, current, too_many)


def _come_on_by_itself(work: Work, found: Brake | None, too_many: Losses) -> None:
    """Put the brake on because of losses; an operator who has put it on keeps it."""
    work.note(
        AuditKind.BRAKE_ON,
        SUBJECTS,
        Facts(losses=too_many),
        who=Who(actor=ITSELF),
    )
    calm = work.policy.brake.calm
    ends = work.now + calm if calm else 0
    by_itself = Brake(by=ITSELF, reason="", since=work.now, due_at=ends)
    new = replace(found or by_itself, withdraws=True, losses=too_many)
    _come_on(work, found, new)


def _come_on(work: Work, found: Brake | None, new: Brake) -> Brake:
    """Store the brake, and let the announced work be withdrawn after the commit."""
    is_news = new.withdraws and not (found is not None and found.withdraws)
    stored = (
        work.tx.add(new)
        if found is None
        else work.tx.replace(found, replace(new, revision=found.revision))
    )
    work.change_brake()
    if is_news:
        _withdraw_all(work, new.by, new.reason)
    return stored


def _withdraw_all(work: Work, by: Actor, reason: str) -> None:
    """Begin to withdraw all announced planned work, and halt all campaigns.

    A halted campaign withdraws its own hosts, and an operator resumes it.
    """
    work.withdraw()
    for campaign in list(every(work.tx, kinds.CAMPAIGNS_OPEN)):
        if campaign.halt is None:
            why = Halt(cause=HaltCause.BRAKE, by=by, at=work.now, reason=reason)
            halted = campaign_ends.halt(work, campaign, why)
            campaign_ends.save(work, campaign, halted)


def end_calm(work: Work) -> None:
    """Take off a brake that came on by itself, if nothing was lost for long enough."""
    current = work.tx.get(Brake, BRAKE_KEY)
    if current is not None and current.due_at and current.due_at <= work.now:
        take_off(work)
