"""The messages to receivers of webhooks that one transaction writes.

A message is stored in the transaction with the change that it is about. A crash before
the commit leaves neither; a crash after it leaves both.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from forewarn.campaigns.record import CampaignRecord
from forewarn.control.rules.policy import Subscriber
from forewarn.control.transactions.event_json import change_of, event_report
from forewarn.ids import RandomIds
from forewarn.instants import Micros
from forewarn.protocol.events import Event
from forewarn.store.notices import Notice, NoticeKind, status_of
from forewarn.store.port import Transaction
from forewarn.store.records import AuditEntry, AuditKind, OutboxMessage

NOTICES: Mapping[AuditKind, NoticeKind] = {
    AuditKind.CAMPAIGN_STARTED: NoticeKind.CAMPAIGN_STARTED,
    AuditKind.CAMPAIGN_STAGE_BEGUN: NoticeKind.STAGE_STARTED,
    AuditKind.CAMPAIGN_APPROVAL_NEEDED: NoticeKind.APPROVAL_NEEDED,
    AuditKind.CAMPAIGN_PAUSED: NoticeKind.CAMPAIGN_PAUSED,
    AuditKind.CAMPAIGN_HALTED: NoticeKind.CAMPAIGN_HALTED,
    AuditKind.CAMPAIGN_RESUMED: NoticeKind.CAMPAIGN_RESUMED,
    AuditKind.CAMPAIGN_DONE: NoticeKind.CAMPAIGN_DONE,
    AuditKind.CAMPAIGN_ABORTED: NoticeKind.CAMPAIGN_ABORTED,
    AuditKind.BRAKE_ON: NoticeKind.BRAKE_ON,
    AuditKind.BRAKE_OFF: NoticeKind.BRAKE_OFF,
    AuditKind.BLACKOUT_SET: NoticeKind.BLACKOUT_SET,
    AuditKind.BLACKOUT_REMOVED: NoticeKind.BLACKOUT_REMOVED,
}
"""The notice about each kind of history entry that has one."""

_CAMPAIGN = "campaign:"
_BLACKOUT = "blackout:"


class Messages:
    """Collects the changes of a transaction, and stores their messages at its end."""

    def __init__(self, subscribers: Sequence[Subscriber]) -> None:
        """Collect changes for these receivers."""
        self._subscribers = subscribers
        self._steps: list[tuple[Event, Event]] = []
        self._entries: list[AuditEntry] = []

    def add_step(self, before: Event, after: Event) -> None:
        """Add the change of an event."""
        if self._subscribers:
            self._steps.append((before, after))

    def add_entry(self, entry: AuditEntry) -> None:
        """Add a history entry."""
        if self._subscribers and entry.kind in NOTICES:
            self._entries.append(entry)

    def write(
        self,
        tx: Transaction,
        *,
        now: Micros,
        ids: RandomIds,
        next_key: Callable[[], str],
    ) -> None:
        """Store a message to each receiver for each change and notice that it gets."""
        for before, after in self._steps:
            change = change_of(before, after)
            if change is None:
                continue
            wanting = [
                subscriber
                for subscriber in self._subscribers
                if subscriber.wants(after, change)
            ]
            if not wanting:
                continue
            message = OutboxMessage(
                message_id="",
                receiver="",
                at=now,
                change=change,
                public_id=ids.event(),
                body=json.dumps(event_report(after), separators=(",", ":")),
                approver=after.approver,
            )
            _store(tx, message, wanting, next_key)
        for entry in self._entries:
            kind = NOTICES[entry.kind]
            wanting = [
                subscriber
                for subscriber in self._subscribers
                if subscriber.wants_notice(kind)
            ]
            if not wanting:
                continue
            message = OutboxMessage(
                message_id="",
                receiver="",
                at=now,
                notice=notice_of(tx, entry),
                public_id=ids.event(),
            )
            _store(tx, message, wanting, next_key)


def _store(
    tx: Transaction,
    message: OutboxMessage,
    receivers: Sequence[Subscriber],
    next_key: Callable[[], str],
) -> None:
    """Store a message for each receiver, under a key of its own."""
    for receiver in receivers:
        tx.add(replace(message, message_id=next_key(), receiver=receiver.name))


def notice_of(tx: Transaction, entry: AuditEntry) -> Notice:
    """Return the notice about a history entry, with its campaign as it is now."""
    campaign_id = _name_of(entry, _CAMPAIGN)
    campaign = tx.get(CampaignRecord, campaign_id) if campaign_id else None
    blackout = _name_of(entry, _BLACKOUT)
    return Notice(
        kind=NOTICES[entry.kind],
        by=entry.actor,
        why=entry.why,
        campaign=status_of(campaign) if campaign is not None else None,
        halt=entry.facts.halt,
        losses=entry.facts.losses,
        blackout=blackout,
        time=entry.facts.text if blackout else "",
    )


def _name_of(entry: AuditEntry, prefix: str) -> str:
    """Return the name of the first subject of a kind; empty: there is none."""
    names = (subject for subject in entry.subjects if subject.startswith(prefix))
    return next(names, "").removeprefix(prefix)
