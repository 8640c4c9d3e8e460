-- What is done to one record: got, added, replaced, amended (replaced in part),
-- removed. An addition does nothing where the key is taken; a replacement, an
-- amendment and a removal do nothing unless the row is still the one that was read.
-- The caller looks at the number of rows.

-- name: get_applied_file
-- Get which fleet file was applied last.
SELECT * FROM applied_files WHERE name = :key;

-- name: add_applied_file
-- Add which fleet file was applied, if none was before.
INSERT INTO applied_files (
    name, digest, revision
) VALUES (
    :name, :digest, :revision
) ON CONFLICT (name) DO NOTHING;

-- name: replace_applied_file
-- Replace which fleet file was applied, if it is still as it was read.
UPDATE applied_files SET
    digest = :digest,
    revision = :revision
WHERE name = :name AND revision = :old_revision;

-- name: remove_applied_file
-- Forget which fleet file was applied, if it is still as it was read.
DELETE FROM applied_files
WHERE name = :name AND revision = :old_revision;

-- name: get_tenant
-- Get a tenant.
SELECT * FROM tenants WHERE name = :key;

-- name: add_tenant
-- Add a tenant whose key is free.
INSERT INTO tenants (
    name, applied, revision
) VALUES (
    :name, :applied, :revision
) ON CONFLICT (name) DO NOTHING;

-- name: replace_tenant
-- Replace a tenant that is still as it was read.
UPDATE tenants SET
    applied = :applied,
    revision = :revision
WHERE name = :name AND revision = :old_revision;

-- name: remove_tenant
-- Remove a tenant that is still as it was read.
DELETE FROM tenants
WHERE name = :name AND revision = :old_revision;

-- name: get_scope
-- Get a scope.
SELECT * FROM scopes WHERE name = :key;

-- name: add_scope
-- Add a scope whose key is free.
INSERT INTO scopes (
    name, tenant, kind, approve_user_reboot, approve_user_redeploy,
    terminate_notice, os_image_notice, scale_set, gpu, implied, applied, revision
) VALUES (
    :name, :tenant, :kind, :approve_user_reboot, :approve_user_redeploy,
    :terminate_notice, :os_image_notice, :scale_set, :gpu, :implied, :applied,
    :revision
) ON CONFLICT (name) DO NOTHING;

-- name: replace_scope
-- Replace a scope that is still as it was read.
UPDATE scopes SET
    tenant = :tenant,
    kind = :kind,
    approve_user_reboot = :approve_user_reboot,
    approve_user_redeploy = :approve_user_redeploy,
    terminate_notice = :terminate_notice,
    os_image_notice = :os_image_notice,
    scale_set = :scale_set,
    gpu = :gpu,
    implied = :implied,
    applied = :applied,
    revision = :revision
WHERE name = :name AND revision = :old_revision;

-- name: remove_scope
-- Remove a scope that is still as it was read.
DELETE FROM scopes
WHERE name = :name AND revision = :old_revision;

-- name: get_host
-- Get a host.
SELECT * FROM hosts WHERE name = :key;

-- name: add_host
-- Add a host whose key is free.
INSERT INTO hosts (
    name, zone, capacity, state, applied, revision
) VALUES (
    :name, :zone, :capacity, :state, :applied, :revision
) ON CONFLICT (name) DO NOTHING;

-- name: replace_host
-- Replace a host that is still as it was read.
UPDATE hosts SET
    zone = :zone,
    capacity = :capacity,
    state = :state,
    applied = :applied,
    revision = :revision
WHERE name = :name AND revision = :old_revision AND state = :old_state;

-- name: remove_host
-- Remove a host that is still as it was read.
DELETE FROM hosts
WHERE name = :name AND revision = :old_revision AND state = :old_state;

-- name: get_vm
-- Get a VM.
SELECT * FROM vms WHERE name = :key;

-- name: add_vm
-- Add a VM whose key is free.
INSERT INTO vms (
    name, wire_name, host, scope, tenant, view, fault_domain, update_domain, size,
    memory_preserving, spot, vm_id, tags, resource_group, subscription, location,
    addresses, listen, state, moving_to, started, applied, revision
) VALUES (
    :name, :wire_name, :host, :scope, :tenant, :view, :fault_domain, :update_domain,
    :size, :memory_preserving, :spot, :vm_id, :tags, :resource_group, :subscription,
    :location, :addresses, :listen, :state, :moving_to, :started, :applied,
    :revision
) ON CONFLICT (name) DO NOTHING;

-- name: replace_vm
-- Replace a VM that is still as it was read.
UPDATE vms SET
    wire_name = :wire_name,
    host = :host,
    scope = :scope,
    tenant = :tenant,
    view = :view,
    fault_domain = :fault_domain,
    update_domain = :update_domain,
    size = :size,
    memory_preserving = :memory_preserving,
    spot = :spot,
    vm_id = :vm_id,
    tags = :tags,
    resource_group = :resource_group,
    subscription = :subscription,
    location = :location,
    addresses = :addresses,
    listen = :listen,
    state = :state,
    moving_to = :moving_to,
    started = :started,
    applied = :applied,
    revision = :revision
WHERE name = :name AND revision = :old_revision AND state = :old_state;

-- name: amend_vm_condition
-- Note whether a VM runs, and what has started on it.
UPDATE vms SET
    state = :state,
    started = :started,
    revision = :revision
WHERE name = :name AND revision = :old_revision AND state = :old_state;

-- name: remove_vm
-- Remove a VM that is still as it was read.
DELETE FROM vms
WHERE name = :name AND revision = :old_revision AND state = :old_state;

-- name: get_view
-- Get a view.
SELECT * FROM views WHERE view_id = :key;

-- name: add_view
-- Add a view whose key is free.
INSERT INTO views (
    view_id, scope, enabling, vm, state, epoch, incarnation, digest, ready_at,
    events_from, due_at, last_seen, revision
) VALUES (
    :view_id, :scope, :enabling, :vm, :state, :epoch, :incarnation, :digest,
    :ready_at, :events_from, :due_at, :last_seen, :revision
) ON CONFLICT (view_id) DO NOTHING;

-- name: replace_view
-- Replace a view that is still as it was read.
UPDATE views SET
    scope = :scope,
    enabling = :enabling,
    vm = :vm,
    state = :state,
    epoch = :epoch,
    incarnation = :incarnation,
    digest = :digest,
    ready_at = :ready_at,
    events_from = :events_from,
    due_at = :due_at,
    last_seen = :last_seen,
    revision = :revision
WHERE view_id = :view_id AND revision = :old_revision AND state = :old_state;

-- name: amend_view_document
-- Note what the document of a view says now.
UPDATE views SET
    incarnation = :incarnation,
    digest = :digest,
    revision = :revision
WHERE view_id = :view_id AND revision = :old_revision AND state = :old_state;

-- name: amend_view_sighting
-- Note when a view was last asked for.
UPDATE views SET
    last_seen = :last_seen,
    revision = :revision
WHERE view_id = :view_id AND revision = :old_revision AND state = :old_state;

-- name: remove_view
-- Remove a view that is still as it was read.
DELETE FROM views
WHERE view_id = :view_id AND revision = :old_revision AND state = :old_state;

-- name: get_request
-- Get a request.
SELECT * FROM requests WHERE request_id = :key;

-- name: add_request
-- Add a request whose key is free.
INSERT INTO requests (
    request_id, verb, actor, reason, state, together, is_rollout, created, revision
) VALUES (
    :request_id, :verb, :actor, :reason, :state, :together, :is_rollout, :created,
    :revision
) ON CONFLICT (request_id) DO NOTHING;

-- name: replace_request
-- Replace a request that is still as it was read.
UPDATE requests SET
    verb = :verb,
    actor = :actor,
    reason = :reason,
    state = :state,
    together = :together,
    is_rollout = :is_rollout,
    created = :created,
    revision = :revision
WHERE request_id = :request_id AND revision = :old_revision AND state = :old_state;

-- name: remove_request
-- Remove a request that is still as it was read.
DELETE FROM requests
WHERE request_id = :request_id AND revision = :old_revision AND state = :old_state;

-- name: get_operation
-- Get an operation.
SELECT * FROM operations WHERE operation_id = :key;

-- name: add_operation
-- Add an operation whose key is free.
INSERT INTO operations (
    operation_id, request, verb, action, target_kind, target, host, state, routine,
    not_before, moves, scopes, duration_seconds, description, created, due_at,
    generation, attempts, call_state, driver, started_at, impact_ended_at, ended_at,
    note, revision
) VALUES (
    :operation_id, :request, :verb, :action, :target_kind, :target, :host, :state,
    :routine, :not_before, :moves, :scopes, :duration_seconds, :description,
    :created, :due_at, :generation, :attempts, :call_state, :driver, :started_at,
    :impact_ended_at, :ended_at, :note, :revision
) ON CONFLICT (operation_id) DO NOTHING;

-- name: replace_operation
-- Replace an operation that is still as it was read.
UPDATE operations SET
    request = :request,
    verb = :verb,
    action = :action,
    target_kind = :target_kind,
    target = :target,
    host = :host,
    state = :state,
    routine = :routine,
    not_before = :not_before,
    moves = :moves,
    scopes = :scopes,
    duration_seconds = :duration_seconds,
    description = :description,
    created = :created,
    due_at = :due_at,
    generation = :generation,
    attempts = :attempts,
    call_state = :call_state,
    driver = :driver,
    started_at = :started_at,
    impact_ended_at = :impact_ended_at,
    ended_at = :ended_at,
    note = :note,
    revision = :revision
WHERE operation_id = :operation_id AND revision = :old_revision AND state = :old_state;

-- name: amend_operation_call
-- Note that an operation goes on, with the call of its driver.
UPDATE operations SET
    state = :state,
    due_at = :due_at,
    generation = :generation,
    attempts = :attempts,
    call_state = :call_state,
    driver = :driver,
    started_at = :started_at,
    note = :note,
    revision = :revision
WHERE operation_id = :operation_id AND revision = :old_revision AND state = :old_state;

-- name: remove_operation
-- Remove an operation that is still as it was read.
DELETE FROM operations
WHERE operation_id = :operation_id AND revision = :old_revision AND state = :old_state;

-- name: get_event
-- Get an event.
SELECT * FROM events WHERE event_id = :key;

-- name: add_event
-- Add an event whose key is free.
INSERT INTO events (
    event_id, operation, scope, tenant, status, event_type, source, resources,
    not_before, description, duration_seconds, created, approved_by, approved_at,
    started_at, removed_at, outcome, revision
) VALUES (
    :event_id, :operation, :scope, :tenant, :status, :event_type, :source,
    :resources, :not_before, :description, :duration_seconds, :created,
    :approved_by, :approved_at, :started_at, :removed_at, :outcome, :revision
) ON CONFLICT (event_id) DO NOTHING;

-- name: replace_event
-- Replace an event that is still as it was read.
UPDATE events SET
    operation = :operation,
    scope = :scope,
    tenant = :tenant,
    status = :status,
    event_type = :event_type,
    source = :source,
    resources = :resources,
    not_before = :not_before,
    description = :description,
    duration_seconds = :duration_seconds,
    created = :created,
    approved_by = :approved_by,
    approved_at = :approved_at,
    started_at = :started_at,
    removed_at = :removed_at,
    outcome = :outcome,
    revision = :revision
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: amend_event_approval
-- Note who has approved an event.
UPDATE events SET
    approved_by = :approved_by,
    approved_at = :approved_at,
    revision = :revision
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: amend_event_start
-- Note that an event has started.
UPDATE events SET
    status = :status,
    approved_by = :approved_by,
    approved_at = :approved_at,
    started_at = :started_at,
    revision = :revision
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: remove_event
-- Remove an event that is still as it was read.
DELETE FROM events
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: get_audit_entry
-- Get an entry of the trail.
SELECT * FROM audit WHERE entry_id = :key;

-- name: add_audit_entry
-- Add an entry of the trail whose key is free.
INSERT INTO audit (
    entry_id, at, actor, what, why, subjects, detail, revision
) VALUES (
    :entry_id, :at, :actor, :what, :why, :subjects, :detail, :revision
) ON CONFLICT (entry_id) DO NOTHING;

-- name: replace_audit_entry
-- Replace an entry of the trail that is still as it was read.
UPDATE audit SET
    at = :at,
    actor = :actor,
    what = :what,
    why = :why,
    subjects = :subjects,
    detail = :detail,
    revision = :revision
WHERE entry_id = :entry_id AND revision = :old_revision;

-- name: remove_audit_entry
-- Remove an entry of the trail that is still as it was read.
DELETE FROM audit
WHERE entry_id = :entry_id AND revision = :old_revision;

-- name: get_outbox_message
-- Get a message that is to be delivered.
SELECT * FROM outbox WHERE message_id = :key;

-- name: add_outbox_message
-- Add a message whose key is free.
INSERT INTO outbox (
    message_id, receiver, at, change, public_id, body, revision
) VALUES (
    :message_id, :receiver, :at, :change, :public_id, :body, :revision
) ON CONFLICT (message_id) DO NOTHING;

-- name: replace_outbox_message
-- Replace a message that is still as it was read.
UPDATE outbox SET
    receiver = :receiver,
    at = :at,
    change = :change,
    public_id = :public_id,
    body = :body,
    revision = :revision
WHERE message_id = :message_id AND revision = :old_revision;

-- name: remove_outbox_message
-- Remove a message that is still as it was read.
DELETE FROM outbox
WHERE message_id = :message_id AND revision = :old_revision;

-- name: get_span
-- Get a time of a VM.
SELECT * FROM spans WHERE span_id = :key;

-- name: add_span
-- Add a time of a VM whose key is free.
INSERT INTO spans (
    span_id, vm, scope, tenant, fault_domain, kind, operation, began, ended, is_exact,
    revision
) VALUES (
    :span_id, :vm, :scope, :tenant, :fault_domain, :kind, :operation, :began, :ended,
    :is_exact, :revision
) ON CONFLICT (span_id) DO NOTHING;

-- name: replace_span
-- Replace a time of a VM that is still as it was read.
UPDATE spans SET
    vm = :vm,
    scope = :scope,
    tenant = :tenant,
    fault_domain = :fault_domain,
    kind = :kind,
    operation = :operation,
    began = :began,
    ended = :ended,
    is_exact = :is_exact,
    revision = :revision
WHERE span_id = :span_id AND revision = :old_revision;

-- name: remove_span
-- Remove a time of a VM that is still as it was read.
DELETE FROM spans
WHERE span_id = :span_id AND revision = :old_revision;

-- name: get_token
-- Get a token of the operator API.
SELECT * FROM tokens WHERE token_id = :key;

-- name: add_token
-- Add a token whose key is free.
INSERT INTO tokens (
    token_id, name, tenant, read_only, digest, created_at, created_by, expires_at,
    revision
) VALUES (
    :token_id, :name, :tenant, :read_only, :digest, :created_at, :created_by,
    :expires_at, :revision
) ON CONFLICT (token_id) DO NOTHING;

-- name: replace_token
-- Replace a token that is still as it was read.
UPDATE tokens SET
    name = :name,
    tenant = :tenant,
    read_only = :read_only,
    digest = :digest,
    created_at = :created_at,
    created_by = :created_by,
    expires_at = :expires_at,
    revision = :revision
WHERE token_id = :token_id AND revision = :old_revision;

-- name: remove_token
-- Remove a token that is still as it was read.
DELETE FROM tokens
WHERE token_id = :token_id AND revision = :old_revision;

-- name: add_operation_vm
-- Note that an operation names a VM.
INSERT INTO operation_vms (vm, operation_id) VALUES (:vm, :operation_id);

-- name: remove_operation_vm
-- Forget that an operation names a VM.
DELETE FROM operation_vms WHERE vm = :vm AND operation_id = :operation_id;

-- name: add_open_operation_vm
-- Note that an open operation names a VM.
INSERT INTO open_operation_vms (vm, operation_id) VALUES (:vm, :operation_id);

-- name: remove_open_operation_vm
-- Forget that an open operation names a VM.
DELETE FROM open_operation_vms WHERE vm = :vm AND operation_id = :operation_id;

-- name: add_operation_scope
-- Note that an operation concerns a scope.
INSERT INTO operation_scopes (scope, operation_id) VALUES (:scope, :operation_id);

-- name: remove_operation_scope
-- Forget that an operation concerns a scope.
DELETE FROM operation_scopes
WHERE scope = :scope AND operation_id = :operation_id;

-- name: add_open_operation_scope
-- Note that an open operation concerns a scope.
INSERT INTO open_operation_scopes (scope, operation_id)
VALUES (:scope, :operation_id);

-- name: remove_open_operation_scope
-- Forget that an open operation concerns a scope.
DELETE FROM open_operation_scopes
WHERE scope = :scope AND operation_id = :operation_id;

-- name: add_audit_subject
-- Note what an entry of the trail is about.
INSERT INTO audit_subjects (subject, entry_id) VALUES (:subject, :entry_id);

-- name: remove_audit_subject
-- Forget what an entry of the trail is about.
DELETE FROM audit_subjects WHERE subject = :subject AND entry_id = :entry_id;

-- name: take_safety
-- Write the safety row of a scope, so that of those who do only one goes on.
INSERT INTO safety (scope, revision) VALUES (:scope, 1)
ON CONFLICT (scope) DO UPDATE SET revision = safety.revision + 1;
