-- Messages for receivers can be notices, which have no change of an event.
CREATE TABLE messages (
    message_id TEXT NOT NULL PRIMARY KEY,
    receiver TEXT NOT NULL,
    at INTEGER NOT NULL,
    change TEXT,  -- scheduled, changed, approved, started, completed, ...; NULL: a notice
    public_id TEXT NOT NULL,
    body TEXT NOT NULL,  -- the event as it became, as JSON; empty for a notice
    revision INTEGER NOT NULL,
    approver TEXT NOT NULL DEFAULT '',
    notice TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;

INSERT INTO messages (message_id, receiver, at, change, public_id, body, revision, approver)
SELECT message_id, receiver, at, change, public_id, body, revision, approver FROM outbox;

DROP TABLE outbox;
ALTER TABLE messages RENAME TO outbox;
CREATE INDEX outbox_by_receiver ON outbox (receiver, message_id);

ALTER TABLE campaigns ADD COLUMN is_asked INTEGER NOT NULL DEFAULT 0;
