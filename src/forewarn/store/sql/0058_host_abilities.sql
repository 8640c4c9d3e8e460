-- What the driver told about each host and the VMs on it.
CREATE TABLE host_abilities (
    host TEXT NOT NULL PRIMARY KEY,
    told TEXT NOT NULL,  -- JSON
    since INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
