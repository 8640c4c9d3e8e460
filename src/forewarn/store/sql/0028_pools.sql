-- Find hosts with free capacity in a pool, also by their free vCPUs and memory.
ALTER TABLE rooms ADD COLUMN pool TEXT NOT NULL DEFAULT '';
ALTER TABLE rooms ADD COLUMN vcpu INTEGER NOT NULL DEFAULT 2000000000;  -- no limit
ALTER TABLE rooms ADD COLUMN vcpu_used INTEGER NOT NULL DEFAULT 0;
ALTER TABLE rooms ADD COLUMN memory INTEGER NOT NULL DEFAULT 2000000000;  -- no limit
ALTER TABLE rooms ADD COLUMN memory_used INTEGER NOT NULL DEFAULT 0;

-- Hosts had none of these values until a few steps ago.
UPDATE rooms SET
    pool = (SELECT hosts.pool FROM hosts WHERE hosts.name = rooms.host),
    vcpu = (
        SELECT coalesce(hosts.vcpu, 2000000000) FROM hosts
        WHERE hosts.name = rooms.host
    ),
    memory = (
        SELECT coalesce(hosts.memory, 2000000000) FROM hosts
        WHERE hosts.name = rooms.host
    ),
    vcpu_used = (
        SELECT coalesce(sum(vms.vcpu), 0) FROM vms
        WHERE vms.state != 'deleted' AND vms.host = rooms.host
    ) + (
        SELECT coalesce(sum(vms.vcpu), 0) FROM vms
        WHERE vms.state != 'deleted' AND vms.moving_to != ''
            AND vms.moving_to = rooms.host AND vms.host != rooms.host
    ),
    memory_used = (
        SELECT coalesce(sum(vms.memory), 0) FROM vms
        WHERE vms.state != 'deleted' AND vms.host = rooms.host
    ) + (
        SELECT coalesce(sum(vms.memory), 0) FROM vms
        WHERE vms.state != 'deleted' AND vms.moving_to != ''
            AND vms.moving_to = rooms.host AND vms.host != rooms.host
    )
WHERE EXISTS (SELECT 1 FROM vms WHERE vcpu IS NOT NULL OR memory IS NOT NULL)
    OR EXISTS (
        SELECT 1 FROM hosts
        WHERE hosts.name = rooms.host
            AND (pool != '' OR vcpu IS NOT NULL OR memory IS NOT NULL)
    );

DROP INDEX rooms_open_by_zone;
DROP INDEX rooms_open;
DROP INDEX rooms_with_space;
CREATE INDEX rooms_open_by_zone ON rooms (pool || '/' || zone, places - used, host)
    WHERE is_up AND NOT is_cordoned AND works = 0 AND places > used;
CREATE INDEX rooms_open ON rooms (pool, places - used, host)
    WHERE is_up AND NOT is_cordoned AND works = 0 AND places > used;
CREATE INDEX rooms_with_space ON rooms (pool, places - used, host)
    WHERE is_up AND NOT is_cordoned AND places > used;
CREATE INDEX rooms_by_vcpu ON rooms (pool, vcpu - vcpu_used, host)
    WHERE is_up AND NOT is_cordoned AND places > used AND vcpu < 2000000000;
CREATE INDEX rooms_by_memory ON rooms (pool, memory - memory_used, host)
    WHERE is_up AND NOT is_cordoned AND places > used AND memory < 2000000000;

-- The VMs on a host that cannot be moved.
CREATE INDEX vms_fixed_by_host ON vms (host, name)
    WHERE NOT movable AND state != 'deleted';
