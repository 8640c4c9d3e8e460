-- Hosts that take no new VMs, and their owners.
ALTER TABLE hosts ADD COLUMN cordons TEXT NOT NULL DEFAULT '[]';
ALTER TABLE rooms ADD COLUMN is_cordoned INTEGER NOT NULL DEFAULT 0;

DROP INDEX rooms_open_by_zone;
DROP INDEX rooms_open;
DROP INDEX rooms_with_space;
CREATE INDEX rooms_open_by_zone ON rooms (zone, places - used, host)
    WHERE is_up AND NOT is_cordoned AND works = 0 AND places > used;
CREATE INDEX rooms_open ON rooms (places - used, host)
    WHERE is_up AND NOT is_cordoned AND works = 0 AND places > used;
CREATE INDEX rooms_with_space ON rooms (places - used, host)
    WHERE is_up AND NOT is_cordoned AND places > used;
CREATE INDEX hosts_cordoned ON hosts (name) WHERE cordons != '[]';
