-- Waiting operations are found by what they wait for.

-- The names that an operation waits for: ["scope:web","scope:web/0"]
ALTER TABLE operations ADD COLUMN waits_for TEXT NOT NULL DEFAULT '[]';

-- The waiting operations by name.
CREATE TABLE operation_waits (
    wait TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    PRIMARY KEY (wait, operation_id)
) WITHOUT ROWID;

CREATE INDEX operations_open_by_request ON operations (request, operation_id)
    WHERE state NOT IN ('Done', 'Cancelled', 'Failed');

-- Find the fault domains of a scope that are down without reading all of its VMs.
CREATE INDEX vms_unsteady_by_domain ON vms (scope, fault_domain, name)
    WHERE state = 'down' OR (state = 'running' AND started != '[]');
