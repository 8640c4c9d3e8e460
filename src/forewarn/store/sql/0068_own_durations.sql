-- The durations of the last hosts of a campaign, and the hosts that outlasted their window.
ALTER TABLE campaigns ADD COLUMN works TEXT NOT NULL DEFAULT '[]';
ALTER TABLE campaigns ADD COLUMN overran INTEGER NOT NULL DEFAULT 0;
