-- The rank of campaigns for hosts in flight, and the limit that all of them share.
ALTER TABLE campaigns ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;
ALTER TABLE campaigns ADD COLUMN shared_most INTEGER NOT NULL DEFAULT 0;
