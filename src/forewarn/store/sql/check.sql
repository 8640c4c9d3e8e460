-- What `forewarn store check` reads: each table whole, and the links that differ from
-- what the records say. Not for a running service: these look at every row.

-- name: every_applied_file
-- Which fleet file was applied last.
SELECT * FROM applied_files;

-- name: every_tenant
-- All tenants.
SELECT * FROM tenants ORDER BY name;

-- name: every_scope
-- All scopes.
SELECT * FROM scopes ORDER BY name;

-- name: every_host
-- All hosts.
SELECT * FROM hosts ORDER BY name;

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
);

-- name: stray_operation_vm
-- The links of VMs that their operation does not name.
SELECT links.operation_id, links.vm FROM operation_vms AS links
WHERE NOT EXISTS (
    SELECT 1 FROM operations, json_each(operations.moves) AS move
    WHERE operations.operation_id = links.operation_id
        AND json_extract(move.value, '$.vm') = links.vm
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

-- name: missing_audit_subject
-- The subjects of the trail that no link names.
SELECT DISTINCT audit.entry_id, subject.value AS subject
FROM audit, json_each(audit.subjects) AS subject
WHERE NOT EXISTS (
    SELECT 1 FROM audit_subjects AS links
    WHERE links.entry_id = audit.entry_id AND links.subject = subject.value
);

-- name: stray_audit_subject
-- The links of subjects that no entry of the trail is about.
SELECT links.entry_id, links.subject FROM audit_subjects AS links
WHERE NOT EXISTS (
    SELECT 1 FROM audit, json_each(audit.subjects) AS subject
    WHERE audit.entry_id = links.entry_id AND subject.value = links.subject
);
