-- What each tenant has deferred of the maintenance of a host.
ALTER TABLE operations ADD COLUMN deferrals TEXT NOT NULL DEFAULT '[]';
