-- Whether the relay of a host has confirmed what its VMs must see.
CREATE TABLE relay_links (
    host TEXT NOT NULL PRIMARY KEY,
    term INTEGER NOT NULL,
    silent_since INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX relay_links_silent ON relay_links (host) WHERE silent_since != 0;
