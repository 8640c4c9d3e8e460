-- Find the scopes with maintenance windows.
CREATE INDEX scopes_with_window ON scopes (name) WHERE maintenance_window != '[]';
