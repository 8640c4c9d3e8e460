-- Hosts and VMs that were lost, for as long as the brake counts them, and how many.
CREATE TABLE losses (
    name TEXT NOT NULL PRIMARY KEY,  -- host:h1, vm:web_0
    rack TEXT NOT NULL,  -- of a host, or empty
    due_at INTEGER NOT NULL,  -- when it is forgotten
    revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX losses_in_rack ON losses (rack, name) WHERE rack != '';
CREATE INDEX losses_due ON losses (due_at, name);

-- Numbers of records, so that no decision has to count them.
CREATE TABLE tallies (
    name TEXT NOT NULL PRIMARY KEY,  -- hosts, lost hosts, lost vms, lost in RACK
    count INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO tallies (name, count, revision)
SELECT 'hosts', count(*), 0 FROM hosts HAVING count(*) > 0;

-- Why the brake is on, what it does to announced work, and when it ends by itself.
ALTER TABLE brakes ADD COLUMN withdraws INTEGER NOT NULL DEFAULT 0;
ALTER TABLE brakes ADD COLUMN losses TEXT NOT NULL DEFAULT '';
ALTER TABLE brakes ADD COLUMN due_at INTEGER NOT NULL DEFAULT 0;
