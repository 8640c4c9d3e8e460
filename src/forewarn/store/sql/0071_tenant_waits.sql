-- The times for which windows and deferrals of tenants held the maintenance of a host.
ALTER TABLE operations ADD COLUMN tenant_waits TEXT NOT NULL DEFAULT '[]';
