-- Whether the driver chooses the hosts that the VMs of an operation move to.
ALTER TABLE operations ADD COLUMN driver_chooses INTEGER NOT NULL DEFAULT 0;
