-- Campaigns: what was started, and how far it is. Each has a rollout with its operations.
CREATE TABLE campaigns (
    campaign_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    reason TEXT NOT NULL,
    impact TEXT NOT NULL,
    state TEXT NOT NULL,
    request TEXT NOT NULL,
    actor TEXT NOT NULL,
    created INTEGER NOT NULL,
    digest TEXT NOT NULL,
    text TEXT NOT NULL,
    hosts INTEGER NOT NULL,
    stages TEXT NOT NULL,
    budget TEXT NOT NULL,
    tolerance TEXT NOT NULL,
    windows TEXT NOT NULL,
    checks TEXT NOT NULL,
    slow INTEGER NOT NULL,
    notice INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    stage INTEGER NOT NULL,
    stage_left INTEGER NOT NULL,
    soaks_until INTEGER NOT NULL,
    is_approved INTEGER NOT NULL,
    ramp INTEGER NOT NULL,
    ramp_done INTEGER NOT NULL,
    outcomes TEXT NOT NULL,
    done INTEGER NOT NULL,
    skipped INTEGER NOT NULL,
    failed TEXT NOT NULL,
    pauses TEXT NOT NULL,
    halt TEXT NOT NULL,
    withdrawn INTEGER NOT NULL,
    moved_at INTEGER NOT NULL,
    due_at INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX campaigns_open ON campaigns (campaign_id) WHERE ended = 0;
CREATE INDEX campaigns_due ON campaigns (due_at, campaign_id) WHERE due_at != 0;

ALTER TABLE requests ADD COLUMN campaign TEXT NOT NULL DEFAULT '';
