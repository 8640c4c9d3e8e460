-- Whether the caller gave NotBefore. For requests from before this step, this is
-- unknown; those that need no approval have started.
ALTER TABLE operations ADD COLUMN is_timed INTEGER NOT NULL DEFAULT 0;
