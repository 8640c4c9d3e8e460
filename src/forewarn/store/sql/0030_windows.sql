-- When maintenance may start.
ALTER TABLE scopes ADD COLUMN maintenance_window TEXT NOT NULL DEFAULT '[]';
ALTER TABLE operations ADD COLUMN is_emergency INTEGER NOT NULL DEFAULT 0;
