-- The blackouts of the service, in which no routine work begins.
CREATE TABLE blackouts (
    name TEXT NOT NULL PRIMARY KEY,
    time TEXT NOT NULL,  -- when it is, JSON
    places TEXT NOT NULL,  -- the part of the fleet, JSON; none: the whole fleet
    by TEXT NOT NULL,  -- the actor, JSON
    reason TEXT NOT NULL,
    since INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
