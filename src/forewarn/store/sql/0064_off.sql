-- VMs that their users shut down.
ALTER TABLE vms ADD COLUMN is_off INTEGER NOT NULL DEFAULT 0;
