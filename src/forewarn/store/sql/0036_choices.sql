-- What tenants choose about their part of a request: later, or now.
CREATE TABLE choices (
    choice_id TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    tenant TEXT NOT NULL,
    scope TEXT NOT NULL,
    vm TEXT NOT NULL,  -- empty: all VMs of the scope
    until INTEGER NOT NULL,  -- 0: as soon as possible
    by TEXT NOT NULL,  -- the actor, JSON
    reason TEXT NOT NULL,
    at INTEGER NOT NULL,
    deferrals INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX choices_by_tenant ON choices (tenant, choice_id);
CREATE INDEX choices_by_request ON choices (request, choice_id);
ALTER TABLE requests ADD COLUMN has_choices INTEGER NOT NULL DEFAULT 0;
