-- Find the hosts that are done in a request, and those that come last in it.
CREATE INDEX rooms_done ON rooms
    (done_in || '/' || pool || '/' || zone, places - used, host)
    WHERE is_up AND NOT is_cordoned AND works = 0 AND places > used AND done_in != '';
CREATE INDEX operations_planned_by_position ON operations
    (request, position, operation_id) WHERE state = 'Planned' AND position > 0;
