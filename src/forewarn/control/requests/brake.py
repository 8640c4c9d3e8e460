"""Put the brake on and take it off: while it is on, no routine work begins.

The brake is one record, so that it survives a crash at any place. Work that has started
continues. Announced work stays announced and does not start. When the brake is taken off,
the operations that it held are checked one after the other.
"""

from forewarn.control.transactions.work import Work
from forewarn.protocol.errors import RefusedError
from forewarn.store.records import BRAKE_KEY, AuditKind, Brake

SUBJECTS = ("brake:service",)


def put_on(work: Work) -> Brake:
    """Put the brake on; raises RefusedError without a reason, or if it is on."""
    reason = work.who.reason
    if not reason:
        raise RefusedError("the brake needs a reason", hint="Add --reason TEXT.")
    found = work.tx.get(Brake, BRAKE_KEY)
    if found is not None:
        raise RefusedError(
            f"{found.by.text} has already put the brake on ({found.reason})",
            hint="Run `forewarn brake off` first to change the reason.",
        )
    work.note(AuditKind.BRAKE_ON, SUBJECTS)
    return work.tx.add(Brake(by=work.who.actor, reason=reason, since=work.now))


def take_off(work: Work) -> None:
    """Take the brake off, and check the work that it held; raises RefusedError."""
    found = work.tx.get(Brake, BRAKE_KEY)
    if found is None:
        raise RefusedError("the brake is not on")
    work.note(AuditKind.BRAKE_OFF, SUBJECTS)
    work.tx.remove(found)
    work.free_brake()
