-- The brake, which stops routine work.
CREATE TABLE brakes (
    name TEXT NOT NULL PRIMARY KEY,  -- there is one while it is on: 'brake'
    by TEXT NOT NULL,  -- the actor, JSON
    reason TEXT NOT NULL,
    since INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
