"""Delete old data in small steps, so that no transaction is long.

Ended operations and their events are kept for the retention time, so that late approvals
are answered (3.2) and `history` can show them. A campaign is deleted with the last
operation of its rollout. The failed operations of an open campaign are kept, because they
can be retried.
"""

from itertools import islice

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.execution import downtime
from forewarn.control.rules.policy import Policy
from forewarn.control.transactions.work import Work
from forewarn.instants import Micros
from forewarn.protocol.operations import ENDED_STATES, Operation, Request
from forewarn.protocol.visits import Visit
from forewarn.store import kinds
from forewarn.store.port import Reader, every

ROWS_PER_STEP = 50
"""Maximum operations, history entries, spans of VMs and idempotency keys that one step
deletes, each."""


def is_due(reader: Reader, policy: Policy, *, now: Micros) -> bool:
    """Return whether any data is older than the retention."""
    until = _horizon(reader, policy, now)
    oldest = (
        reader.earliest(kinds.AUDIT_AT),
        reader.earliest(kinds.SPANS_ENDED),
    )
    expired = reader.earliest(kinds.ORDER_KEYS_EXPIRED)
    return (
        (expired is not None and expired <= now)
        or any(instant is not None and instant <= until for instant in oldest)
        or bool(_old_operations(reader, until, limit=1))
    )


def _old_operations(reader: Reader, until: Micros, *, limit: int) -> list[Operation]:
    """Return the first ended operations that no operator can repeat.

    Those are the failed hosts of open campaigns, and visits that have not ended.
    """
    first = reader.earliest(kinds.OPERATIONS_ENDED)
    if first is None or first > until:
        return []
    in_use = {
        operation
        for campaign in every(reader, kinds.CAMPAIGNS_OPEN)
        for _, operation in campaign.failed
    }
    in_use.update(visit.operation for visit in every(reader, kinds.OPEN_VISITS))
    rows = reader.due(kinds.OPERATIONS_ENDED, until, limit=limit + len(in_use))
    return list(islice((row for row in rows if row.key not in in_use), limit))


def _horizon(reader: Reader, policy: Policy, now: Micros) -> Micros:
    """Return the time up to which ended data is deleted.

    A limit by number reads ended operations up to that number. With a thousand this takes
    about 0.4 ms per step, in simulations only.
    """
    by_age = now - policy.retention
    if not policy.ended_max:
        return by_age
    ended = reader.due(
        kinds.OPERATIONS_ENDED, now, limit=policy.ended_max + ROWS_PER_STEP
    )
    surplus = len(ended) - policy.ended_max
    return by_age if surplus <= 0 else max(by_age, ended[surplus - 1].ended_at)


def purge(work: Work) -> int:
    """Delete some rows that are older than the retention; return their number."""
    until = _horizon(work.tx, work.policy, work.now)
    operations = _old_operations(work.tx, until, limit=ROWS_PER_STEP)
    for operation in operations:
        for event in work.events_of(operation):
            work.tx.remove(event)
        work.tx.remove(operation)
        visit = work.tx.get(Visit, operation.visit) if operation.visit else None
        # An operation that was announced again has left its visit to the next one.
        if visit is not None and visit.operation == operation.key:
            work.tx.remove(visit)
        siblings = work.tx.select(
            kinds.OPERATIONS_OF_REQUEST, operation.request, limit=1
        )
        request = work.tx.get(Request, operation.request)
        if request is not None and not siblings and not request.hosts_unplanned:
            campaign = work.tx.get(CampaignRecord, request.campaign)
            if campaign is not None and not campaign.has_ended:
                continue
            assert operation.state in ENDED_STATES
            for choice in list(every(work.tx, kinds.CHOICES_OF_REQUEST, request.key)):
                work.tx.remove(choice)
            work.tx.remove(request)
            if campaign is not None:
                work.tx.remove(campaign)
    entries = work.tx.due(kinds.AUDIT_AT, until, limit=ROWS_PER_STEP)
    for entry in entries:
        work.tx.remove(entry)
    spans = work.tx.due(kinds.SPANS_ENDED, until, limit=ROWS_PER_STEP)
    for span in spans:
        downtime.forget(work, span)
    # The expiry of a key includes the retention already.
    order_keys = work.tx.due(kinds.ORDER_KEYS_EXPIRED, work.now, limit=ROWS_PER_STEP)
    for key in order_keys:
        work.tx.remove(key)
    return len(operations) + len(entries) + len(spans) + len(order_keys)
