-- Whether a driver call does the whole action, or one half of it around host work.
ALTER TABLE operations ADD COLUMN part TEXT NOT NULL DEFAULT 'whole';
