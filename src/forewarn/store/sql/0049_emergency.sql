-- Emergency campaigns, which windows and blackouts do not stop.
ALTER TABLE campaigns ADD COLUMN is_emergency INTEGER NOT NULL DEFAULT 0;
