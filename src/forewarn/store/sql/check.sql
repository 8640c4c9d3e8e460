-- What `forewarn store check` compares with the tables of links: what the records say,
-- as their key and the name that a link has. Not for a running service: these look at
-- every row.

-- name: operation_vm
-- The VMs that operations name, and those that have left them.
SELECT operation_id, json_extract(move.value, '$.vm')
FROM operations, json_each(operations.moves) AS move
UNION SELECT operation_id, vm.value
FROM operations, json_each(operations.left_vms) AS vm;

-- name: open_operation_vm
-- The VMs that open operations name.
SELECT operation_id, json_extract(move.value, '$.vm')
FROM operations, json_each(operations.moves) AS move
WHERE operations.state NOT IN ('Done', 'Cancelled', 'Failed');

-- name: operation_scope
-- The scopes that operations concern.
SELECT operation_id, scope.value
FROM operations, json_each(operations.scopes) AS scope;

-- name: open_operation_scope
-- The scopes that open operations concern.
SELECT operation_id, scope.value
FROM operations, json_each(operations.scopes) AS scope
WHERE operations.state NOT IN ('Done', 'Cancelled', 'Failed');

-- name: operation_wait
-- What operations wait for.
SELECT operation_id, wait.value
FROM operations, json_each(operations.waits_for) AS wait;

-- name: event_fault_domain
-- The fault domains of live events of planned work.
SELECT event_id, scope || '/' || json_extract(resource.value, '$.fault_domain')
FROM events, json_each(events.resources) AS resource
WHERE events.is_planned_work AND events.status IN ('Scheduled', 'Started');

-- name: audit_subject
-- The subjects of audit entries that have links: of those about an operation, the
-- hosts that a VM has moved between.
SELECT entry_id, subject.value
FROM audit, json_each(audit.subjects) AS subject
WHERE audit.operation = ''
    OR (audit.kind = 'vm moved' AND substr(subject.value, 1, 5) = 'host:');
