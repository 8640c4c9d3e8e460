-- Hosts of campaigns whose VMs could not be moved away, and skipped hosts of later stages.
ALTER TABLE operations ADD COLUMN drains INTEGER NOT NULL DEFAULT 0;
ALTER TABLE campaigns ADD COLUMN deferred INTEGER NOT NULL DEFAULT 0;
ALTER TABLE campaigns ADD COLUMN skipped_ahead TEXT NOT NULL DEFAULT '[]';

CREATE INDEX operations_deferred_by_request ON operations (request, operation_id)
    WHERE state = 'Planned' AND drains != 0;
