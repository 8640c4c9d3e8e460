-- Tokens that nobody uses are found, and those that a stranger may have made end.

-- When the token was last used, to the hour; 0 is never, or before this step.
ALTER TABLE tokens ADD COLUMN last_used_at INTEGER NOT NULL DEFAULT 0;

-- 1 if its maker presented neither a token nor credentials. Tokens that were made
-- before this step are not marked: nothing says who made them.
ALTER TABLE tokens ADD COLUMN is_unauthenticated INTEGER NOT NULL DEFAULT 0;
