-- The attempts of rollouts on a host, and those of a rollout by the times of their ends.
CREATE INDEX operations_attempted_on_host ON operations (host, operation_id)
    WHERE position != 0;
CREATE INDEX operations_ended_by_request ON operations (request, ended_at, operation_id)
    WHERE position != 0 AND ended_at != 0;
