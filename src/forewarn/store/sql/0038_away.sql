-- Hosts that are away, and hosts of a place that are announced or in work.
ALTER TABLE rooms ADD COLUMN stands_at TEXT NOT NULL DEFAULT '[]';

UPDATE rooms SET stands_at = (
    SELECT json_group_array(place) FROM (
        SELECT place FROM host_places WHERE name = rooms.host AND place LIKE 'zone=%'
        UNION ALL
        SELECT place FROM host_places WHERE name = rooms.host AND place LIKE 'cluster=%'
        UNION ALL
        SELECT place FROM host_places WHERE name = rooms.host AND place LIKE 'rack=%'
        UNION ALL
        SELECT place FROM host_places WHERE name = rooms.host AND place LIKE 'pool=%'
        UNION ALL
        SELECT place FROM (
            SELECT place FROM host_places
            WHERE name = rooms.host AND place LIKE 'label=%' ORDER BY place
        )
    )
);

ALTER TABLE campaigns ADD COLUMN fleet_hosts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE campaigns ADD COLUMN tenant_most TEXT NOT NULL DEFAULT '[]';

CREATE INDEX rooms_away ON rooms (host) WHERE works > 0 OR is_cordoned OR NOT is_up;

-- The places of hosts that are announced or in work.
CREATE TABLE working_places (
    place TEXT NOT NULL,
    host TEXT NOT NULL,
    PRIMARY KEY (place, host)
) WITHOUT ROWID;

INSERT INTO working_places
SELECT DISTINCT place.value, rooms.host FROM rooms, json_each(rooms.stands_at) AS place
WHERE rooms.works > 0;
CREATE INDEX events_planned_of_tenant ON events (tenant, event_id)
    WHERE status IN ('Scheduled', 'Started') AND is_planned_work;
