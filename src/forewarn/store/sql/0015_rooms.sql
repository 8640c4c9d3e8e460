-- Find hosts with free capacity without reading the others.

-- The capacity of each host: all places, and the used ones.
CREATE TABLE rooms (
    host TEXT NOT NULL PRIMARY KEY,
    zone TEXT NOT NULL,
    places INTEGER NOT NULL,  -- 1000000000: no limit
    used INTEGER NOT NULL,  -- VMs on it, and places kept
    is_up INTEGER NOT NULL,
    works INTEGER NOT NULL,  -- operations announced or under way for the host
    done_in TEXT NOT NULL,  -- the request that it was last maintained for; '' is none
    revision INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO rooms (host, zone, places, used, is_up, works, done_in, revision)
SELECT
    hosts.name,
    hosts.zone,
    coalesce(hosts.capacity, 1000000000),
    (
        SELECT count(*) FROM vms
        WHERE vms.state != 'deleted' AND vms.host = hosts.name
    ) + (
        SELECT count(*) FROM vms
        WHERE vms.state != 'deleted' AND vms.moving_to != ''
            AND vms.moving_to = hosts.name AND vms.host != hosts.name
    ),
    hosts.state = 'up',
    (
        SELECT count(*) FROM operations
        WHERE operations.host = hosts.name
            AND operations.state NOT IN ('Planned', 'Done', 'Cancelled', 'Failed')
            AND (
                operations.target_kind = 'host'
                OR operations.verb = 'predict-failure'
            )
    ),
    '',
    0
FROM hosts;

CREATE INDEX rooms_open_by_zone ON rooms (zone, places - used, host)
    WHERE is_up AND works = 0 AND places > used;
CREATE INDEX rooms_open ON rooms (places - used, host)
    WHERE is_up AND works = 0 AND places > used;
CREATE INDEX rooms_with_space ON rooms (places - used, host)
    WHERE is_up AND places > used;

-- The VMs of one fault domain of a scope.
CREATE INDEX vms_by_domain ON vms (scope || '/' || fault_domain, name)
    WHERE state != 'deleted';
