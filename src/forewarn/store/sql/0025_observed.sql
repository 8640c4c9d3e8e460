-- Find VMs that the driver observed on hosts where forewarn did not place them.
ALTER TABLE vms ADD COLUMN is_observed INTEGER NOT NULL DEFAULT 0;
CREATE INDEX vms_observed ON vms (name) WHERE is_observed;

-- forewarn places no VM next to another fault domain of its scope, so one of these was
-- observed there.
UPDATE vms SET is_observed = 1
WHERE state != 'deleted' AND (host, scope) IN (
    SELECT host, scope FROM vms
    WHERE state != 'deleted'
    GROUP BY host, scope
    HAVING min(fault_domain) != max(fault_domain)
);
