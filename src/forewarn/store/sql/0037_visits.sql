-- The work of a request with host steps, on each of its hosts.
CREATE TABLE visits (
    visit_id TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    operation TEXT NOT NULL,  -- the operation that the VMs of the host see
    host TEXT NOT NULL,
    state TEXT NOT NULL,
    steps TEXT NOT NULL,  -- JSON
    created INTEGER NOT NULL,
    is_needed INTEGER NOT NULL,
    holds_slot INTEGER NOT NULL,
    is_deferred INTEGER NOT NULL,
    generation INTEGER NOT NULL,  -- the number of the last call
    call_state TEXT NOT NULL,
    driver TEXT NOT NULL,
    driver_memory TEXT NOT NULL,
    due_at INTEGER NOT NULL,
    verified INTEGER NOT NULL,
    give_up_at INTEGER NOT NULL,
    failed_in TEXT,  -- a state
    skipped TEXT,  -- a reason
    results TEXT NOT NULL,  -- the last result of each step, JSON
    ended_at INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX visits_by_request ON visits (request, visit_id);
CREATE INDEX visits_open_by_request ON visits (request, visit_id) WHERE ended_at = 0;
CREATE INDEX visits_open_by_host ON visits (host, visit_id) WHERE ended_at = 0;
CREATE INDEX visits_open ON visits (visit_id) WHERE ended_at = 0;
CREATE INDEX visits_by_host ON visits (host, visit_id);
CREATE INDEX visits_due ON visits (due_at, visit_id) WHERE due_at != 0;
CREATE INDEX visits_ended ON visits (ended_at, visit_id) WHERE ended_at != 0;

ALTER TABLE operations ADD COLUMN visit TEXT NOT NULL DEFAULT '';
ALTER TABLE requests ADD COLUMN steps TEXT NOT NULL DEFAULT '[]';
