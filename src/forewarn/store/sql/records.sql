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

-- name: get_room
-- Get the places of a host.
SELECT * FROM rooms WHERE host = :key;

-- name: add_room
-- Add the places of a host whose key is free.
INSERT INTO rooms (
    host, zone, places, used, is_up, works, done_in, revision
) VALUES (
    :host, :zone, :places, :used, :is_up, :works, :done_in, :revision
) ON CONFLICT (host) DO NOTHING;

-- name: replace_room
-- Replace the places of a host that are still as they were read.
UPDATE rooms SET
    zone = :zone,
    places = :places,
    used = :used,
    is_up = :is_up,
    works = :works,
    done_in = :done_in,
    revision = :revision
WHERE host = :host AND revision = :old_revision;

-- name: remove_room
-- Remove the places of a host that are still as they were read.
DELETE FROM rooms
WHERE host = :host AND revision = :old_revision;

-- name: get_vm
-- Get a VM.
SELECT * FROM vms WHERE name = :key;

-- name: add_vm
-- Add a VM whose key is free.
INSERT INTO vms (
    name, wire_name, host, scope, tenant, view, fault_domain, update_domain, size,
    memory_preserving, spot, vm_id, tags, resource_group, subscription, location,
    addresses, listen, state, moving_to, started, left_views, applied, revision
) VALUES (
    :name, :wire_name, :host, :scope, :tenant, :view, :fault_domain, :update_domain,
    :size, :memory_preserving, :spot, :vm_id, :tags, :resource_group, :subscription,
    :location, :addresses, :listen, :state, :moving_to, :started, :left_views, :applied,
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
    left_views = :left_views,
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
    request_id, verb, actor, reason, state, together, is_rollout, created, at_once,
    in_flight, hosts, unplanned, revision
) VALUES (
    :request_id, :verb, :actor, :reason, :state, :together, :is_rollout, :created,
    :at_once, :in_flight, :hosts, :unplanned, :revision
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
    at_once = :at_once,
    in_flight = :in_flight,
    hosts = :hosts,
    unplanned = :unplanned,
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
    not_before, moves, scopes, duration_seconds, description, created,
    is_timed, due_at, generation, attempts, call_state, driver, driver_memory,
    started_at, impact_ended_at, ended_at, note, left_vms, cancelled_by, held_by,
    waits_for, position, revision
) VALUES (
    :operation_id, :request, :verb, :action, :target_kind, :target, :host, :state,
    :routine, :not_before, :moves, :scopes, :duration_seconds, :description,
    :created, :is_timed, :due_at, :generation, :attempts, :call_state, :driver,
    :driver_memory, :started_at, :impact_ended_at, :ended_at, :note, :left_vms, :cancelled_by,
    :held_by, :waits_for, :position, :revision
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
    is_timed = :is_timed,
    due_at = :due_at,
    generation = :generation,
    attempts = :attempts,
    call_state = :call_state,
    driver = :driver,
    driver_memory = :driver_memory,
    started_at = :started_at,
    impact_ended_at = :impact_ended_at,
    ended_at = :ended_at,
    note = :note,
    left_vms = :left_vms,
    cancelled_by = :cancelled_by,
    held_by = :held_by,
    waits_for = :waits_for,
    position = :position,
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
    driver_memory = :driver_memory,
    started_at = :started_at,
    note = :note,
    held_by = :held_by,
    waits_for = :waits_for,
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
    not_before, description, duration_seconds, created, approver, approved_at,
    started_at, removed_at, outcome, shown_in, is_planned_work, revision
) VALUES (
    :event_id, :operation, :scope, :tenant, :status, :event_type, :source,
    :resources, :not_before, :description, :duration_seconds, :created,
    :approver, :approved_at, :started_at, :removed_at, :outcome, :shown_in,
    :is_planned_work, :revision
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
    approver = :approver,
    approved_at = :approved_at,
    started_at = :started_at,
    removed_at = :removed_at,
    outcome = :outcome,
    shown_in = :shown_in,
    is_planned_work = :is_planned_work,
    revision = :revision
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: amend_event_approval
-- Note who has approved an event.
UPDATE events SET
    approver = :approver,
    approved_at = :approved_at,
    revision = :revision
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: amend_event_showing
-- Note in which documents an event was shown.
UPDATE events SET
    shown_in = :shown_in,
    revision = :revision
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: amend_event_start
-- Note that an event has started.
UPDATE events SET
    status = :status,
    approver = :approver,
    approved_at = :approved_at,
    started_at = :started_at,
    revision = :revision
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: remove_event
-- Remove an event that is still as it was read.
DELETE FROM events
WHERE event_id = :event_id AND revision = :old_revision AND status = :old_status;

-- name: get_leader
-- Get the row of the present term.
SELECT * FROM leader WHERE name = :key;

-- name: add_leader
-- Add the row of the present term.
INSERT INTO leader (name, term, secret, revision)
VALUES (:name, :term, :secret, :revision)
ON CONFLICT (name) DO NOTHING;

-- name: replace_leader
-- Begin a new term, if the row is still as it was read.
UPDATE leader SET
    term = :term,
    secret = :secret,
    revision = :revision
WHERE name = :name AND revision = :old_revision;

-- name: remove_leader
-- Remove the row of the present term, if it is still as it was read.
DELETE FROM leader WHERE name = :name AND revision = :old_revision;

-- name: get_audit_entry
-- Get an audit entry.
SELECT * FROM audit WHERE entry_id = :key;

-- name: add_audit_entry
-- Add an audit entry whose key is free.
INSERT INTO audit (
    entry_id, at, actor, kind, why, subjects, operation, facts, revision
) VALUES (
    :entry_id, :at, :actor, :kind, :why, :subjects, :operation, :facts, :revision
) ON CONFLICT (entry_id) DO NOTHING;

-- name: replace_audit_entry
-- Replace an audit entry that is still as it was read.
UPDATE audit SET
    at = :at,
    actor = :actor,
    kind = :kind,
    why = :why,
    subjects = :subjects,
    operation = :operation,
    facts = :facts,
    revision = :revision
WHERE entry_id = :entry_id AND revision = :old_revision;

-- name: remove_audit_entry
-- Remove an audit entry that is still as it was read.
DELETE FROM audit
WHERE entry_id = :entry_id AND revision = :old_revision;

-- name: get_outbox_message
-- Get a message that is to be delivered.
SELECT * FROM outbox WHERE message_id = :key;

-- name: add_outbox_message
-- Add a message whose key is free.
INSERT INTO outbox (
    message_id, receiver, at, change, public_id, body, approver, revision
) VALUES (
    :message_id, :receiver, :at, :change, :public_id, :body, :approver, :revision
) ON CONFLICT (message_id) DO NOTHING;

-- name: replace_outbox_message
-- Replace a message that is still as it was read.
UPDATE outbox SET
    receiver = :receiver,
    at = :at,
    change = :change,
    public_id = :public_id,
    body = :body,
    approver = :approver,
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
    last_used_at, is_unauthenticated, revision
) VALUES (
    :token_id, :name, :tenant, :read_only, :digest, :created_at, :created_by,
    :expires_at, :last_used_at, :is_unauthenticated, :revision
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
    last_used_at = :last_used_at,
    is_unauthenticated = :is_unauthenticated,
    revision = :revision
WHERE token_id = :token_id AND revision = :old_revision;

-- name: remove_token
-- Remove a token that is still as it was read.
DELETE FROM tokens
WHERE token_id = :token_id AND revision = :old_revision;

-- name: get_order_key
-- Get the Idempotency-Key of an order.
SELECT * FROM order_keys WHERE key_id = :key;

-- name: add_order_key
-- Add the Idempotency-Key of an order, if it is not stored.
INSERT INTO order_keys (
    key_id, caller, digest, result, created_at, expires_at, revision
) VALUES (
    :key_id, :caller, :digest, :result, :created_at, :expires_at, :revision
) ON CONFLICT (key_id) DO NOTHING;

-- name: replace_order_key
-- Replace the Idempotency-Key of an order, if it is still as it was read.
UPDATE order_keys SET
    caller = :caller,
    digest = :digest,
    result = :result,
    created_at = :created_at,
    expires_at = :expires_at,
    revision = :revision
WHERE key_id = :key_id AND revision = :old_revision;

-- name: remove_order_key
-- Remove the Idempotency-Key of an order, if it is still as it was read.
DELETE FROM order_keys
WHERE key_id = :key_id AND revision = :old_revision;

-- name: add_operation_vm
-- Note that an operation names a VM.
INSERT INTO operation_vms (vm, operation_id) VALUES (:vm, :operation_id);

-- name: remove_operation_vm
-- Forget that an operation names a VM.
DELETE FROM operation_vms WHERE vm = :vm AND operation_id = :operation_id;

-- name: add_operation_wait
-- Note what an operation waits for.
INSERT INTO operation_waits (wait, operation_id) VALUES (:wait, :operation_id);

-- name: remove_operation_wait
-- Forget that an operation waits for something.
DELETE FROM operation_waits WHERE wait = :wait AND operation_id = :operation_id;

-- name: add_event_fault_domain
-- Note the fault domain of a live event of planned work.
INSERT INTO event_fault_domains (fault_domain, event_id, scope)
VALUES (:fault_domain, :event_id, :scope);

-- name: remove_event_fault_domain
-- Forget the fault domain of an event that is no longer live.
DELETE FROM event_fault_domains
WHERE fault_domain = :fault_domain AND event_id = :event_id AND scope = :scope;

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
