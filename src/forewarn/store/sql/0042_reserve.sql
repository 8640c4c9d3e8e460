-- Find the largest hosts of a pool, and keep the sums of each pool as tallies.
CREATE INDEX rooms_by_places_limit ON rooms (pool, places, host)
    WHERE places < 1000000000;
CREATE INDEX rooms_by_vcpu_limit ON rooms (pool, vcpu, host) WHERE vcpu < 2000000000;
CREATE INDEX rooms_by_memory_limit ON rooms (pool, memory, host)
    WHERE memory < 2000000000;

INSERT INTO tallies (name, count, revision)
SELECT name, sum(amount), 0 FROM (
    SELECT 'unlimited/capacity/' || pool AS name, places >= 1000000000 AS amount
    FROM rooms
    UNION ALL
    SELECT 'unlimited/vcpu/' || pool, vcpu >= 2000000000 FROM rooms
    UNION ALL
    SELECT 'unlimited/memory/' || pool, memory >= 2000000000 FROM rooms
    UNION ALL
    SELECT 'total/capacity/' || pool, places FROM rooms WHERE places < 1000000000
    UNION ALL
    SELECT 'total/vcpu/' || pool, vcpu FROM rooms WHERE vcpu < 2000000000
    UNION ALL
    SELECT 'total/memory/' || pool, memory FROM rooms WHERE memory < 2000000000
    UNION ALL
    SELECT 'free/capacity/' || pool, max(0, places - used) FROM rooms
    WHERE places < 1000000000 AND is_up AND NOT is_cordoned AND works = 0
    UNION ALL
    SELECT 'free/vcpu/' || pool, max(0, vcpu - vcpu_used) FROM rooms
    WHERE vcpu < 2000000000 AND is_up AND NOT is_cordoned AND works = 0
    UNION ALL
    SELECT 'free/memory/' || pool, max(0, memory - memory_used) FROM rooms
    WHERE memory < 2000000000 AND is_up AND NOT is_cordoned AND works = 0
)
GROUP BY name HAVING sum(amount) > 0;
