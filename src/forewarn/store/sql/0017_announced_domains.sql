-- Find the announced fault domains of a scope without reading all events.

-- 1: while the event is live, rollouts announce no other fault domain of its scope.
ALTER TABLE events ADD COLUMN is_planned_work INTEGER NOT NULL DEFAULT 0;
UPDATE events SET is_planned_work = 1
WHERE operation IN (
    SELECT operation_id FROM operations
    WHERE verb IN ('maintain', 'upgrade-os', 'reimage')
);

-- The fault domains of the VMs of such live events.
CREATE TABLE event_fault_domains (
    scope TEXT NOT NULL,
    fault_domain INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    PRIMARY KEY (scope, fault_domain, event_id)
) WITHOUT ROWID;

INSERT INTO event_fault_domains (scope, fault_domain, event_id)
SELECT DISTINCT
    events.scope,
    json_extract(resource.value, '$.fault_domain'),
    events.event_id
FROM events, json_each(events.resources) AS resource
WHERE events.is_planned_work AND events.status IN ('Scheduled', 'Started');
