-- Rollouts announce their hosts one after the other. What was ordered before this step
-- was announced when it was ordered, so that nothing of it waits for its turn.

ALTER TABLE requests ADD COLUMN at_once INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN in_flight INTEGER NOT NULL DEFAULT 0;
ALTER TABLE requests ADD COLUMN hosts INTEGER NOT NULL DEFAULT 0;

-- The place in the list of the rollout, from 1.
ALTER TABLE operations ADD COLUMN position INTEGER NOT NULL DEFAULT 0;

-- Who was announced of a request and has not started, and whose turn has not come.
CREATE INDEX operations_announced_by_request ON operations (request, operation_id)
    WHERE state IN ('Noticed', 'Ready');
CREATE INDEX operations_planned_by_request ON operations (request, operation_id)
    WHERE state = 'Planned';
