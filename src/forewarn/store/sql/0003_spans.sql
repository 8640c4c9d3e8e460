-- When VMs existed, and when they did not run. The time before this step is unknown:
-- existing VMs get spans of unknown age from now on. VMs that are down or in a driver
-- call get outages that begin now at the latest.

-- Spans of VMs: each existence in a scope, and each outage.
CREATE TABLE spans (
    span_id TEXT NOT NULL PRIMARY KEY,  -- web_0/01896048000000000.000000007.s-x2v…
    vm TEXT NOT NULL,
    scope TEXT NOT NULL,
    tenant TEXT NOT NULL,
    fault_domain INTEGER NOT NULL,
    kind TEXT NOT NULL,  -- existence; freeze, live-migrate, reboot, redeploy,
    -- reimage, failure
    operation TEXT NOT NULL,  -- '' for an existence
    began INTEGER NOT NULL,
    ended INTEGER NOT NULL,  -- 0: it goes on
    is_exact INTEGER NOT NULL,  -- 0: an existence is older, an interruption shorter
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX spans_by_vm ON spans (vm, span_id);
CREATE INDEX spans_by_scope ON spans (scope, span_id);
CREATE INDEX spans_by_tenant ON spans (tenant, span_id);
CREATE INDEX spans_by_operation ON spans (operation, span_id) WHERE operation != '';
CREATE INDEX spans_open_by_vm ON spans (vm, span_id) WHERE ended = 0;
CREATE INDEX spans_by_ended ON spans (ended, span_id) WHERE ended != 0;

INSERT INTO spans
SELECT
    name || '/' || printf('%017d', strftime('%s', 'now') * 1000000) || '.0.upgrade',
    name, scope, tenant, fault_domain, 'existence', '',
    strftime('%s', 'now') * 1000000, 0, 0, 0
FROM vms WHERE state != 'deleted';

INSERT INTO spans
SELECT
    name || '/' || printf('%017d', strftime('%s', 'now') * 1000000) || '.1.upgrade',
    name, scope, tenant, fault_domain, 'failure',
    coalesce((
        SELECT operations.operation_id FROM open_operation_vms AS links
        CROSS JOIN operations ON operations.operation_id = links.operation_id
        WHERE links.vm = vms.name AND operations.verb = 'fail'
        LIMIT 1
    ), ''),
    strftime('%s', 'now') * 1000000, 0, 1, 0
FROM vms WHERE state = 'down';

INSERT INTO spans
SELECT
    vms.name || '/' || printf('%017d', strftime('%s', 'now') * 1000000)
        || '.1.upgrade',
    vms.name, vms.scope, vms.tenant, vms.fault_domain, operations.action,
    operations.operation_id, strftime('%s', 'now') * 1000000, 0, 0, 0
FROM operations, json_each(operations.moves) AS move
CROSS JOIN vms ON vms.name = json_extract(move.value, '$.vm')
WHERE operations.state = 'Impacting' AND vms.state = 'running'
    AND operations.action IN ('freeze', 'reboot', 'redeploy', 'reimage')
ON CONFLICT (span_id) DO NOTHING;
