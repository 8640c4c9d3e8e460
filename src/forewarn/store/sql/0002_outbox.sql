-- The undelivered messages for receivers of webhooks.
CREATE TABLE outbox (
    message_id TEXT NOT NULL PRIMARY KEY,
    receiver TEXT NOT NULL,
    at INTEGER NOT NULL,
    change TEXT NOT NULL,  -- scheduled, changed, approved, started, completed, ...
    public_id TEXT NOT NULL,
    body TEXT NOT NULL,  -- the event as it became, as JSON
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX outbox_by_receiver ON outbox (receiver, message_id);
