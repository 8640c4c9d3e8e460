-- The values that an inventory gave last, next to those of the fleet file.
ALTER TABLE tenants ADD COLUMN found TEXT NOT NULL DEFAULT '';
ALTER TABLE scopes ADD COLUMN found TEXT NOT NULL DEFAULT '';
ALTER TABLE hosts ADD COLUMN found TEXT NOT NULL DEFAULT '';
ALTER TABLE vms ADD COLUMN found TEXT NOT NULL DEFAULT '';
