-- A request that is repeated after a lost response is carried out once.

-- The Idempotency-Keys of the requests of the last day, with their results.
CREATE TABLE order_keys (
    key_id TEXT NOT NULL PRIMARY KEY,  -- SHA-256 of caller and key
    caller TEXT NOT NULL,
    digest TEXT NOT NULL,  -- SHA-256 of the request
    result TEXT NOT NULL,  -- JSON
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX order_keys_by_expiry ON order_keys (expires_at, key_id);
