-- The last decision about a campaign, and the operations of a rollout in work.
ALTER TABLE campaigns ADD COLUMN last_decision TEXT NOT NULL DEFAULT '';
CREATE INDEX operations_started_by_request ON operations (request, operation_id)
    WHERE state IN ('Impacting', 'Recovering');
