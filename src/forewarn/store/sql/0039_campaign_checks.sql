-- The checks of campaigns that have no answer, and those that are ignored.
ALTER TABLE campaigns ADD COLUMN despite TEXT NOT NULL DEFAULT '[]';
ALTER TABLE campaigns ADD COLUMN unknown TEXT NOT NULL DEFAULT '[]';
ALTER TABLE campaigns ADD COLUMN unknown_since INTEGER NOT NULL DEFAULT 0;
