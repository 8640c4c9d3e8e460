-- What `forewarn store check` reads: each table whole, and the links that differ from
-- what the records say. Not for a running service: these look at every row.

-- name: every_applied_file
-- Which fleet file was applied last.
SELECT * FROM applied_files;

-- name: every_leader
-- The present term.
SELECT * FROM leader ORDER BY name;

-- name: every_tenant
-- All tenants.
SELECT * FROM tenants ORDER BY name;

-- name: every_scope
-- All scopes.
SELECT * FROM scopes ORDER BY name;

-- name: every_host
-- All hosts.
SELECT * FROM hosts ORDER BY name;

-- name: every_room
-- The places of all hosts.
SELECT * FROM rooms ORDER BY host;

-- name: every_vm
-- All VMs, deleted ones too.
SELECT * FROM vms ORDER BY name;

-- name: every_view
-- All views.
SELECT * FROM views ORDER BY view_id;

-- name: every_request
-- All requests.
SELECT * FROM requests ORDER BY request_id;

-- name: every_operation
-- All operations, ended ones too.
SELECT * FROM operations ORDER BY operation_id;

-- name: every_event
-- All events, removed ones too.
SELECT * FROM events ORDER BY event_id;

-- name: every_audit_entry
-- The whole trail.
SELECT * FROM audit ORDER BY entry_id;

-- name: every_outbox_message
-- All messages that are to be delivered.
SELECT * FROM outbox ORDER BY message_id;

-- name: every_span
-- All times of VMs.
SELECT * FROM spans ORDER BY span_id;

-- name: every_order_key
-- All Idempotency-Keys of orders.
SELECT * FROM order_keys ORDER BY key_id;

-- name: every_token
-- All tokens of the operator API.
SELECT * FROM tokens ORDER BY token_id;

-- name: missing_operation_vm
-- The VMs of operations that no link names.
SELECT DISTINCT operations.operation_id, json_extract(move.value, '$.vm') AS vm
FROM operations, json_each(operations.moves) AS move
WHERE NOT EXISTS (
    SELECT 1 FROM operation_vms AS links
    WHERE links.operation_id = operations.operation_id
        AND links.vm = json_extract(move.value, '$.vm')
) UNION
SELECT operations.operation_id, vm.value AS vm
FROM operations, json_each(operations.left_vms) AS vm
WHERE NOT EXISTS (
    SELECT 1 FROM operation_vms AS links
    WHERE links.operation_id = operations.operation_id AND links.vm = vm.value
);

-- name: stray_operation_vm
-- The links of VMs that their operation does not name.
SELECT links.operation_id, links.vm FROM operation_vms AS links
WHERE NOT EXISTS (
    SELECT 1 FROM operations, json_each(operations.moves) AS move
    WHERE operations.operation_id = links.operation_id
        AND json_extract(move.value, '$.vm') = links.vm
) AND NOT EXISTS (
    SELECT 1 FROM operations, json_each(operations.left_vms) AS vm
    WHERE operations.operation_id = links.operation_id AND vm.value = links.vm
);

-- name: missing_open_operation_vm
-- The VMs of open operations that no link names.
SELECT DISTINCT operations.operation_id, json_extract(move.value, '$.vm') AS vm
FROM operations, json_each(operations.moves) AS move
WHERE operations.state NOT IN ('Done', 'Cancelled', 'Failed') AND NOT EXISTS (
    SELECT 1 FROM open_operation_vms AS links
    WHERE links.operation_id = operations.operation_id
        AND links.vm = json_extract(move.value, '$.vm')
);

-- name: stray_open_operation_vm
-- The links of VMs that no open operation names.
SELECT links.operation_id, links.vm FROM open_operation_vms AS links
WHERE NOT EXISTS (
    SELECT 1 FROM operations, json_each(operations.moves) AS move
    WHERE operations.operation_id = links.operation_id
        AND operations.state NOT IN ('Done', 'Cancelled', 'Failed')
        AND json_extract(move.value, '$.vm') = links.vm
);

-- name: missing_operation_scope
-- The scopes of operations that no link names.
SELECT DISTINCT operations.operation_id, scope.value AS scope
FROM operations, json_each(operations.scopes) AS scope
WHERE NOT EXISTS (
    SELECT 1 FROM operation_scopes AS links
    WHERE links.operation_id = operations.operation_id AND links.scope = scope.value
);

-- name: stray_operation_scope
-- The links of scopes that their operation does not concern.
SELECT links.operation_id, links.scope FROM operation_scopes AS links
WHERE NOT EXISTS (
    SELECT 1 FROM operations, json_each(operations.scopes) AS scope
    WHERE operations.operation_id = links.operation_id
        AND scope.value = links.scope
);

-- name: missing_open_operation_scope
-- The scopes of open operations that no link names.
SELECT operations.operation_id, scope.value AS scope
FROM operations, json_each(operations.scopes) AS scope
WHERE operations.state NOT IN ('Done', 'Cancelled', 'Failed') AND NOT EXISTS (
    SELECT 1 FROM open_operation_scopes AS links
    WHERE links.operation_id = operations.operation_id AND links.scope = scope.value
);

-- name: stray_open_operation_scope
-- The links of scopes that no open operation concerns.
SELECT links.operation_id, links.scope FROM open_operation_scopes AS links
WHERE NOT EXISTS (
    SELECT 1 FROM operations, json_each(operations.scopes) AS scope
    WHERE operations.operation_id = links.operation_id
        AND operations.state NOT IN ('Done', 'Cancelled', 'Failed')
        AND scope.value = links.scope
);

-- name: missing_operation_wait
-- What operations wait for that no link names.
SELECT DISTINCT operations.operation_id, wait.value AS wait
FROM operations, json_each(operations.waits_for) AS wait
WHERE NOT EXISTS (
    SELECT 1 FROM operation_waits AS links
    WHERE links.operation_id = operations.operation_id AND links.wait = wait.value
);

-- name: stray_operation_wait
-- The links of what no operation waits for.
SELECT links.operation_id, links.wait FROM operation_waits AS links
WHERE NOT EXISTS (
    SELECT 1 FROM operations, json_each(operations.waits_for) AS wait
    WHERE operations.operation_id = links.operation_id AND wait.value = links.wait
);

-- name: missing_event_fault_domain
-- The fault domains of live events of planned work that no link names.
SELECT DISTINCT
    events.event_id,
    json_extract(resource.value, '$.fault_domain') AS fault_domain
FROM events, json_each(events.resources) AS resource
WHERE events.is_planned_work AND events.status IN ('Scheduled', 'Started')
    AND NOT EXISTS (
        SELECT 1 FROM event_fault_domains AS links
        WHERE links.event_id = events.event_id AND links.scope = events.scope
            AND links.fault_domain = json_extract(resource.value, '$.fault_domain')
    );

-- name: stray_event_fault_domain
-- The links of what no live event of planned work names.
SELECT links.event_id, links.scope || '/' || links.fault_domain AS fault_domain
FROM event_fault_domains AS links
WHERE NOT EXISTS (
    SELECT 1 FROM events, json_each(events.resources) AS resource
    WHERE events.event_id = links.event_id AND events.scope = links.scope
        AND events.is_planned_work AND events.status IN ('Scheduled', 'Started')
        AND json_extract(resource.value, '$.fault_domain') = links.fault_domain
);

-- name: missing_audit_subject
-- The subjects of the trail that no link names.
SELECT DISTINCT audit.entry_id, subject.value AS subject
FROM audit, json_each(audit.subjects) AS subject
WHERE (
    audit.operation = ''
    OR (audit.kind = 'vm moved' AND substr(subject.value, 1, 5) = 'host:')
) AND NOT EXISTS (
    SELECT 1 FROM audit_subjects AS links
    WHERE links.entry_id = audit.entry_id AND links.subject = subject.value
);

-- name: stray_audit_subject
-- The links of subjects that no entry of the trail is about.
SELECT links.entry_id, links.subject FROM audit_subjects AS links
WHERE NOT EXISTS (
    SELECT 1 FROM audit, json_each(audit.subjects) AS subject
    WHERE audit.entry_id = links.entry_id AND subject.value = links.subject AND (
        audit.operation = ''
        OR (audit.kind = 'vm moved' AND substr(subject.value, 1, 5) = 'host:')
    )
);
