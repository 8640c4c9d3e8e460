-- The first schema. Columns have the names of the records' fields, in the form of
-- codec.py: instants and durations are whole microseconds, an instant of 0 means
-- "never", flags are 0 or 1, states are the values of the enumerations, lists are
-- JSON. Every table is ordered by its key and has no rowid. No table references another:
-- the code above keeps them consistent, and retention can delete old rows in small
-- steps.

-- Owners of scopes.
CREATE TABLE tenants (
    name TEXT NOT NULL PRIMARY KEY,
    applied TEXT NOT NULL,  -- the fleet file's last wish, as JSON; '' is none
    revision INTEGER NOT NULL  -- here and below: how often the row was replaced
) WITHOUT ROWID;

-- Groups of VMs that see the same events.
CREATE TABLE scopes (
    name TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL,
    kind TEXT NOT NULL,  -- standalone, cloud-service, availability-set, scale-set
    approve_user_reboot INTEGER NOT NULL,
    approve_user_redeploy INTEGER NOT NULL,
    terminate_notice INTEGER,  -- NULL: deletions of its VMs are no events
    os_image_notice INTEGER,  -- NULL: upgrades and reimages are no events
    scale_set TEXT NOT NULL,
    gpu INTEGER NOT NULL,
    implied INTEGER NOT NULL,
    applied TEXT NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX scopes_by_tenant ON scopes (tenant, name);

-- Hypervisor hosts.
CREATE TABLE hosts (
    name TEXT NOT NULL PRIMARY KEY,
    zone TEXT NOT NULL,
    capacity INTEGER,  -- NULL: no limit
    state TEXT NOT NULL,  -- up <-> down
    applied TEXT NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

-- Virtual machines.
CREATE TABLE vms (
    name TEXT NOT NULL PRIMARY KEY,
    wire_name TEXT NOT NULL,
    host TEXT NOT NULL,
    scope TEXT NOT NULL,
    tenant TEXT NOT NULL,
    view TEXT NOT NULL,
    fault_domain INTEGER NOT NULL,
    update_domain INTEGER NOT NULL,
    size TEXT NOT NULL,
    memory_preserving INTEGER NOT NULL,
    spot INTEGER NOT NULL,
    vm_id TEXT NOT NULL,
    tags TEXT NOT NULL,  -- [["role","web"]]
    resource_group TEXT NOT NULL,
    subscription TEXT NOT NULL,
    location TEXT NOT NULL,
    addresses TEXT NOT NULL,  -- ["192.0.2.4"]
    listen TEXT NOT NULL,
    state TEXT NOT NULL,  -- running <-> down, either -> deleted
    moving_to TEXT NOT NULL,  -- the host that keeps a place for it; '' is none
    started TEXT NOT NULL,  -- ["op-4h7k2m9xqa"]
    applied TEXT NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

-- Deleted VMs stay in the table, but are on no host and in no scope.
CREATE INDEX vms_by_host ON vms (host, name) WHERE state != 'deleted';
CREATE INDEX vms_by_scope ON vms (scope, name) WHERE state != 'deleted';
CREATE INDEX vms_unsteady_by_scope ON vms (scope, name)
    WHERE state = 'down' OR (state = 'running' AND started != '[]');
CREATE INDEX vms_by_moving_to ON vms (moving_to, name) WHERE moving_to != '';

-- The lists of events that groups of VMs share.
CREATE TABLE views (
    view_id TEXT NOT NULL PRIMARY KEY,
    scope TEXT NOT NULL,
    enabling TEXT NOT NULL,  -- views with the same word are enabled together
    vm TEXT NOT NULL,  -- the only VM that it is for; '' is all of the scope
    state TEXT NOT NULL,  -- Disabled <-> Enabled
    epoch INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    digest TEXT NOT NULL,  -- of the rendered document
    ready_at INTEGER NOT NULL,
    events_from INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX views_by_scope ON views (scope, view_id);
CREATE INDEX views_by_enabling ON views (enabling, view_id);
CREATE INDEX views_by_due_at ON views (due_at, view_id) WHERE due_at != 0;
CREATE INDEX views_by_last_seen ON views (last_seen, view_id)
    WHERE state = 'Enabled' AND last_seen != 0;

-- The requests of operators and tenants.
CREATE TABLE requests (
    request_id TEXT NOT NULL PRIMARY KEY,
    verb TEXT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT NOT NULL,
    state TEXT NOT NULL,  -- Open -> Stopped, Cancelled or Closed
    together INTEGER NOT NULL,
    is_rollout INTEGER NOT NULL,
    created INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

-- The operations: one change of one host or VM.
CREATE TABLE operations (
    operation_id TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    verb TEXT NOT NULL,
    action TEXT NOT NULL,
    target_kind TEXT NOT NULL,  -- host, vm
    target TEXT NOT NULL,
    host TEXT NOT NULL,
    state TEXT NOT NULL,  -- Planned -> Noticed -> Ready -> Impacting -> Recovering
    -- -> Done; Cancelled before Impacting, Failed after it began
    routine INTEGER NOT NULL,
    not_before INTEGER NOT NULL,
    moves TEXT NOT NULL,  -- [{"vm":"web_0","to_host":"h2","done":false}]
    scopes TEXT NOT NULL,  -- ["web"]
    duration_seconds INTEGER NOT NULL,
    description TEXT NOT NULL,
    created INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,  -- with the id it names the driver's call
    attempts INTEGER NOT NULL,
    call_state TEXT NOT NULL,  -- none, issued, retry, unknown
    started_at INTEGER NOT NULL,
    impact_ended_at INTEGER NOT NULL,
    ended_at INTEGER NOT NULL,
    note TEXT NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

-- The two indexes of open operations contain only those, so they do not grow with the
-- history.
CREATE INDEX operations_open ON operations (operation_id)
    WHERE state NOT IN ('Done', 'Cancelled', 'Failed');
CREATE INDEX operations_open_by_host ON operations (host, operation_id)
    WHERE state NOT IN ('Done', 'Cancelled', 'Failed');
CREATE INDEX operations_by_state ON operations (state, operation_id);
CREATE INDEX operations_by_request ON operations (request, operation_id);
CREATE INDEX operations_by_due_at ON operations (due_at, operation_id)
    WHERE due_at != 0;
CREATE INDEX operations_by_ended_at ON operations (ended_at, operation_id)
    WHERE ended_at != 0;

-- The VMs of operations.
CREATE TABLE operation_vms (
    vm TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    PRIMARY KEY (vm, operation_id)
) WITHOUT ROWID;

-- The VMs of open operations, so that the cost of a query for these does not grow with
-- the history.
CREATE TABLE open_operation_vms (
    vm TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    PRIMARY KEY (vm, operation_id)
) WITHOUT ROWID;

-- The scopes of open operations.
CREATE TABLE open_operation_scopes (
    scope TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    PRIMARY KEY (scope, operation_id)
) WITHOUT ROWID;

-- The events: an operation as one scope sees it.
CREATE TABLE events (
    event_id TEXT NOT NULL PRIMARY KEY,
    operation TEXT NOT NULL,
    scope TEXT NOT NULL,
    tenant TEXT NOT NULL,
    status TEXT NOT NULL,  -- New -> Scheduled -> Started -> Removed
    event_type TEXT NOT NULL,
    source TEXT NOT NULL,  -- Platform, User
    resources TEXT NOT NULL,  -- [{"vm":"web_0","name":"web_0","fault_domain":0}]
    not_before INTEGER NOT NULL,
    description TEXT NOT NULL,
    duration_seconds INTEGER NOT NULL,  -- 0 is none, -1 is unknown
    created INTEGER NOT NULL,
    approved_by TEXT NOT NULL,
    approved_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    removed_at INTEGER NOT NULL,
    outcome TEXT,  -- NULL until it is removed: completed, cancelled, failed
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX events_by_operation ON events (operation, event_id);
CREATE INDEX events_live ON events (event_id)
    WHERE status IN ('Scheduled', 'Started');
CREATE INDEX events_live_by_scope ON events (scope, event_id)
    WHERE status IN ('Scheduled', 'Started');

-- The audit entries: actor, action, time and reason.
CREATE TABLE audit (
    entry_id TEXT NOT NULL PRIMARY KEY,
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    what TEXT NOT NULL,
    why TEXT NOT NULL,
    subjects TEXT NOT NULL,  -- ["vm:web_0","operation:op-4h7k2m9xqa"]
    detail TEXT NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX audit_by_at ON audit (at, entry_id) WHERE at != 0;

-- The subjects of audit entries.
CREATE TABLE audit_subjects (
    subject TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    PRIMARY KEY (subject, entry_id)
) WITHOUT ROWID;

-- One row per scope. A transaction that decides over several rows of the scope writes
-- it, and thus conflicts with every other such transaction.
CREATE TABLE safety (
    scope TEXT NOT NULL PRIMARY KEY,
    revision INTEGER NOT NULL
) WITHOUT ROWID;
