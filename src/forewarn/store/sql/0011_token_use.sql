-- Mark unused tokens, and end tokens that an unknown caller may have created.

-- The hour of the last use; 0: never, or before this step.
ALTER TABLE tokens ADD COLUMN last_used_at INTEGER NOT NULL DEFAULT 0;

-- 1 if its creator had no token and no credentials. Tokens from before this step are
-- not marked, because their creators are unknown.
ALTER TABLE tokens ADD COLUMN is_unauthenticated INTEGER NOT NULL DEFAULT 0;
