-- Rollouts announce their hosts one after the other. Requests from before this step
-- were announced at once, so none of their operations waits for its announcement.

ALTER TABLE requests ADD COLUMN at_once INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN in_flight INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN hosts INTEGER NOT NULL DEFAULT 0;

-- The position in the list of the rollout, from 1.
ALTER TABLE operations ADD COLUMN position INTEGER NOT NULL DEFAULT 0;

-- The operations of a request that are announced but not started, and the planned ones.
CREATE INDEX operations_announced_by_request ON operations (request, operation_id)
    WHERE state IN ('Noticed', 'Ready');
CREATE INDEX operations_planned_by_request ON operations (request, operation_id)
    WHERE state = 'Planned';
