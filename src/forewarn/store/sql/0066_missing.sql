-- VMs that the last inventory lacked.
ALTER TABLE vms ADD COLUMN is_missing INTEGER NOT NULL DEFAULT 0;
