-- VMs that are down after the work of a campaign.
ALTER TABLE vms ADD COLUMN down_for TEXT NOT NULL DEFAULT '';

CREATE INDEX vms_down_for ON vms (down_for, name) WHERE down_for != '';
CREATE INDEX operations_worked_by_host ON operations (host, operation_id)
    WHERE position != 0 AND started_at != 0;
