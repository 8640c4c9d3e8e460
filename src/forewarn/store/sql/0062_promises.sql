-- Openings that the maintenance of a host has been promised.
ALTER TABLE operations ADD COLUMN promises TEXT NOT NULL DEFAULT '[]';
