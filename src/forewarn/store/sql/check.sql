-- The links that the records should have, as key and name: `forewarn store check`
-- compares them with the tables of links. Each statement reads every row.

-- name: working_place
-- The places of the hosts that are announced or in work.
SELECT rooms.host, place.value FROM rooms, json_each(rooms.stands_at) AS place
WHERE rooms.works > 0;

-- name: host_place
-- The places and labels of hosts.
SELECT name, 'zone=' || zone FROM hosts WHERE zone != ''
UNION SELECT name, 'cluster=' || cluster FROM hosts WHERE cluster != ''
UNION SELECT name, 'rack=' || rack FROM hosts WHERE rack != ''
UNION SELECT name, 'pool=' || pool FROM hosts WHERE pool != ''
UNION SELECT
    name,
    'label=' || json_extract(label.value, '$[0]') || '='
    || json_extract(label.value, '$[1]')
FROM hosts, json_each(hosts.labels) AS label;

-- name: vm_tag
-- The tags of VMs.
SELECT name, json_extract(tag.value, '$[0]') || '=' || json_extract(tag.value, '$[1]')
FROM vms, json_each(vms.tags) AS tag;

-- name: operation_vm
-- The VMs of operations, and those that have left them.
SELECT operation_id, json_extract(move.value, '$.vm')
FROM operations, json_each(operations.moves) AS move
UNION SELECT operation_id, vm.value
FROM operations, json_each(operations.left_vms) AS vm;

-- name: open_operation_vm
-- The VMs of open operations.
SELECT operation_id, json_extract(move.value, '$.vm')
FROM operations, json_each(operations.moves) AS move
WHERE operations.state NOT IN ('Done', 'Cancelled', 'Failed');

-- name: operation_scope
-- The scopes of operations.
SELECT operation_id, scope.value
FROM operations, json_each(operations.scopes) AS scope;

-- name: open_operation_scope
-- The scopes of open operations.
SELECT operation_id, scope.value
FROM operations, json_each(operations.scopes) AS scope
WHERE operations.state NOT IN ('Done', 'Cancelled', 'Failed');

-- name: operation_wait
-- The names of what operations wait for.
SELECT operation_id, wait.value
FROM operations, json_each(operations.waits_for) AS wait;

-- name: unplanned_host
-- The hosts that have no operation yet.
SELECT page_id, json_extract(pair.value, '$[1]')
FROM unplanned_pages, json_each(unplanned_pages.hosts) AS pair;

-- name: event_fault_domain
-- The fault domains of live events of planned work.
SELECT event_id, scope || '/' || json_extract(resource.value, '$.fault_domain')
FROM events, json_each(events.resources) AS resource
WHERE is_planned_work AND status IN ('Scheduled', 'Started');

-- name: audit_subject
-- The subjects of audit entries that have links. An entry about an operation has links
-- only for the hosts of a VM's move.
SELECT entry_id, subject.value
FROM audit, json_each(audit.subjects) AS subject
WHERE audit.operation = ''
    OR (audit.kind = 'vm moved' AND substr(subject.value, 1, 5) = 'host:');
