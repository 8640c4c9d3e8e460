-- The end that the plan of a campaign forecast at its start; 0: unknown.
ALTER TABLE campaigns ADD COLUMN planned_end INTEGER NOT NULL DEFAULT 0;
