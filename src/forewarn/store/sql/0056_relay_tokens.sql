-- The host of a relay's token. Such a token has no roles.
ALTER TABLE tokens ADD COLUMN host TEXT NOT NULL DEFAULT '';

CREATE INDEX tokens_by_host ON tokens (host, token_id) WHERE host != '';
