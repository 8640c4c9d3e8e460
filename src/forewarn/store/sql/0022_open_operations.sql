-- An operation is open until it has ended_at. Indexes by its state were rewritten at
-- each of its steps.
DROP INDEX operations_open;
DROP INDEX operations_open_by_host;
DROP INDEX operations_open_by_request;
CREATE INDEX operations_open ON operations (operation_id) WHERE ended_at = 0;
CREATE INDEX operations_open_by_host ON operations (host, operation_id)
    WHERE ended_at = 0;
CREATE INDEX operations_open_by_request ON operations (request, operation_id)
    WHERE ended_at = 0;
