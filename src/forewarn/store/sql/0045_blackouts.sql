-- The blackouts of campaigns, and a digest of those that all announced hosts avoid.
ALTER TABLE campaigns ADD COLUMN blackouts TEXT NOT NULL DEFAULT '[]';
ALTER TABLE campaigns ADD COLUMN fitted TEXT NOT NULL DEFAULT '';
