-- The questions of kinds.py, by name. The conditions on states repeat those of the
-- partial indexes, because SQLite uses a partial index only if the query has the same
-- condition. `queries.load` completes most statements:
--
-- * A query gets the condition on :after, the order of the key, and the limit. Those of
--   the history also become statements that read backwards.
-- * A range ends with the column of its instant. It becomes two statements: one finds
--   the rows up to :until, the other the earliest instant.
-- * A ranking is written from the lowest, and becomes two statements.
--
-- A statement with a :limit of its own is complete.

-- name: scopes_of_tenant
-- The scopes of a tenant.
SELECT * FROM scopes WHERE tenant = :value;

-- name: explicit_scopes
-- The scopes that were not created for a VM without a scope.
SELECT * FROM scopes WHERE NOT implied AND :value = '';

-- name: vms_on_host
-- The VMs on a host, running or down.
SELECT * FROM vms WHERE state != 'deleted' AND host = :value;

-- name: fixed_vms_on_host
-- The VMs on a host that cannot be moved.
SELECT * FROM vms INDEXED BY vms_fixed_by_host
WHERE NOT movable AND state != 'deleted' AND host = :value;

-- name: vms_moving_to
-- The VMs for which a host has reserved capacity.
SELECT * FROM vms WHERE moving_to != '' AND moving_to = :value;

-- name: vms_moving
-- The VMs for which any host has reserved capacity.
SELECT * FROM vms WHERE moving_to != '' AND :value = '';

-- name: vms_observed
-- The VMs that the driver observed on hosts where forewarn did not place them.
SELECT * FROM vms WHERE is_observed AND state != 'deleted' AND :value = '';

-- name: vms_of_scope
-- The VMs of a scope, running or down.
SELECT * FROM vms WHERE state != 'deleted' AND scope = :value;

-- name: vms_with_tag
-- The VMs with a tag, also deleted ones.
SELECT vms.* FROM vm_tags AS links
CROSS JOIN vms USING (name)
WHERE links.tag = :value;

-- name: vms_with_listener
-- The VMs with a separate listener.
SELECT * FROM vms WHERE :value = '' AND listen != '' AND state != 'deleted';

-- name: vms_unsteady_in_scope
-- The VMs of a scope that have failed, or on which an operation has started.
SELECT * FROM vms
WHERE (state = 'down' OR (state = 'running' AND started != '[]')) AND scope = :value;

-- name: unsteady_domains
-- The VMs of a scope that are unsteady.
SELECT * FROM vms
WHERE (state = 'down' OR (state = 'running' AND started != '[]')) AND scope = :value
ORDER BY fault_domain, name;

-- name: announced_domains
-- The live events of planned work in a scope.
SELECT events.* FROM event_fault_domains AS links
CROSS JOIN events USING (event_id)
WHERE links.scope = :value
ORDER BY links.fault_domain, links.event_id;

-- name: vms_of_domain
-- The VMs of one fault domain of a scope, running or down.
SELECT * FROM vms WHERE state != 'deleted' AND scope || '/' || fault_domain = :value;

-- name: hosts_at_place
-- The hosts of a zone, cluster, rack or pool, or with a label.
SELECT hosts.* FROM host_places AS links
CROSS JOIN hosts USING (name)
WHERE links.place = :value;

-- name: rooms_away
-- The hosts that are announced, in work, cordoned or down.
SELECT * FROM rooms INDEXED BY rooms_away
WHERE (works > 0 OR is_cordoned OR NOT is_up) AND :value = '';

-- name: rooms_at_work
-- The hosts of a place that are announced or in work.
SELECT rooms.* FROM working_places AS links
CROSS JOIN rooms USING (host)
WHERE links.place = :value;

-- name: planned_events_of_tenant
-- The live events of planned work on the VMs of a tenant.
SELECT * FROM events
WHERE status IN ('Scheduled', 'Started') AND is_planned_work AND tenant = :value;

-- name: rooms_open_in_zone
-- The hosts of a pool and zone that can take a VM.
SELECT * FROM rooms
WHERE is_up AND NOT is_cordoned AND works = 0 AND places > used AND pool || '/' || zone = :value
ORDER BY places - used, host;

-- name: rooms_done
-- The hosts of a pool and zone that are done in a request and can take a VM.
SELECT * FROM rooms INDEXED BY rooms_done
WHERE is_up AND NOT is_cordoned AND works = 0 AND places > used AND done_in != ''
    AND done_in || '/' || pool || '/' || zone = :value
ORDER BY places - used, host;

-- name: planned_by_position
-- The hosts of a request that are not announced, by their positions.
SELECT * FROM operations INDEXED BY operations_planned_by_position
WHERE state = 'Planned' AND position > 0 AND request = :value
ORDER BY position, operation_id;

-- name: rooms_open
-- The hosts of a pool that can take a VM.
SELECT * FROM rooms INDEXED BY rooms_open
WHERE is_up AND NOT is_cordoned AND works = 0 AND places > used AND pool = :value
ORDER BY places - used, host;

-- name: rooms_with_space
-- The hosts of a pool with free capacity, including those with running operations.
SELECT * FROM rooms INDEXED BY rooms_with_space
WHERE is_up AND NOT is_cordoned AND places > used AND pool = :value
ORDER BY places - used, host;

-- name: rooms_by_vcpu
-- The hosts of a pool with free places, by their free vCPUs.
SELECT * FROM rooms INDEXED BY rooms_by_vcpu
WHERE is_up AND NOT is_cordoned AND places > used AND vcpu < 2000000000 AND pool = :value
ORDER BY vcpu - vcpu_used, host;

-- name: rooms_by_memory
-- The hosts of a pool with free places, by their free memory.
SELECT * FROM rooms INDEXED BY rooms_by_memory
WHERE is_up AND NOT is_cordoned AND places > used AND memory < 2000000000 AND pool = :value
ORDER BY memory - memory_used, host;

-- name: rooms_by_places_limit
-- The hosts of a pool with a limit on places, by the limit.
SELECT * FROM rooms INDEXED BY rooms_by_places_limit
WHERE places < 1000000000 AND pool = :value
ORDER BY places, host;

-- name: rooms_by_vcpu_limit
-- The hosts of a pool with a limit on vCPUs, by the limit.
SELECT * FROM rooms INDEXED BY rooms_by_vcpu_limit
WHERE vcpu < 2000000000 AND pool = :value
ORDER BY vcpu, host;

-- name: rooms_by_memory_limit
-- The hosts of a pool with a limit on memory, by the limit.
SELECT * FROM rooms INDEXED BY rooms_by_memory_limit
WHERE memory < 2000000000 AND pool = :value
ORDER BY memory, host;

-- name: hosts_cordoned
-- The hosts that take no new VM.
SELECT * FROM hosts WHERE cordons != '[]' AND :value = '';

-- name: scopes_with_window
-- The scopes with maintenance windows.
SELECT * FROM scopes WHERE maintenance_window != '[]' AND :value = '';

-- name: all_choices
-- The choices of all tenants.
SELECT * FROM choices WHERE :value = '';

-- name: choices_of_tenant
-- The choices of one tenant.
SELECT * FROM choices WHERE tenant = :value;

-- name: choices_of_request
-- The choices about one request.
SELECT * FROM choices WHERE request = :value;

-- name: drift_of_campaign
-- The hosts that match a campaign and were added to the fleet after its start.
SELECT * FROM hosts INDEXED BY hosts_drift WHERE drift_of != '' AND drift_of = :value;

-- name: vms_down_for
-- The VMs that are down after the work of a campaign.
SELECT * FROM vms INDEXED BY vms_down_for WHERE down_for != '' AND down_for = :value;

-- name: views_of_scope
-- The views of a scope.
SELECT * FROM views WHERE scope = :value;

-- name: views_of_enabling
-- The views that one request enables.
SELECT * FROM views WHERE enabling = :value;

-- name: views_due
-- The views that must be rendered again by an instant.
SELECT * FROM views WHERE due_at != 0 ORDER BY due_at;

-- name: views_seen
-- The enabled views that were last requested at or before an instant.
SELECT * FROM views WHERE state = 'Enabled' AND last_seen != 0 ORDER BY last_seen;

-- name: open_operations
-- The operations that have not ended.
SELECT * FROM operations WHERE :value = '' AND ended_at = 0;

-- name: open_operations_of_host
-- The operations on a host that have not ended.
SELECT * FROM operations INDEXED BY operations_open_by_host
WHERE ended_at = 0 AND host = :value;

-- name: open_operations_of_vm
-- The operations of a VM that have not ended.
SELECT operations.* FROM open_operation_vms AS links
CROSS JOIN operations USING (operation_id)
WHERE links.vm = :value;

-- name: open_operations_of_scope
-- The operations of a scope that have not ended.
SELECT operations.* FROM open_operation_scopes AS links
CROSS JOIN operations USING (operation_id)
WHERE links.scope = :value;

-- name: worked_on_host
-- The operations of rollouts that have started on a host.
SELECT * FROM operations INDEXED BY operations_worked_by_host
WHERE position != 0 AND started_at != 0 AND host = :value;

-- name: attempts_on_host
-- The operations of rollouts on a host, in all states.
SELECT * FROM operations INDEXED BY operations_attempted_on_host
WHERE position != 0 AND host = :value;

-- name: ended_of_request
-- The ended operations of a rollout, by the times of their ends.
SELECT * FROM operations INDEXED BY operations_ended_by_request
WHERE position != 0 AND ended_at != 0 AND request = :value
ORDER BY ended_at, operation_id;

-- name: operations_in_state
-- The operations in a state.
SELECT * FROM operations WHERE state = :value;

-- name: operations_of_vm
-- The operations of a VM, including ended ones.
SELECT operations.* FROM operation_vms AS links
CROSS JOIN operations USING (operation_id)
WHERE links.vm = :value;

-- name: operations_of_scope
-- The operations of a scope, including ended ones.
SELECT operations.* FROM operation_scopes AS links
CROSS JOIN operations USING (operation_id)
WHERE links.scope = :value;

-- name: operations_of_request
-- The operations of a request.
SELECT * FROM operations WHERE request = :value;

-- name: open_operations_of_request
-- The operations of a request that have not ended.
SELECT * FROM operations WHERE ended_at = 0 AND request = :value;

-- name: announced_of_request
-- The operations of a request that were announced and have not started.
SELECT * FROM operations WHERE state IN ('Announced', 'Ready') AND request = :value;

-- name: started_of_request
-- The operations of a request whose impact or recovery goes on.
SELECT * FROM operations INDEXED BY operations_started_by_request
WHERE state IN ('Impacting', 'Recovering') AND request = :value;

-- name: planned_of_request
-- The operations of a request that were not announced yet.
SELECT * FROM operations WHERE state = 'Planned' AND request = :value;

-- name: deferred_of_request
-- The planned operations of a request whose VMs could not be moved away before.
SELECT * FROM operations INDEXED BY operations_deferred_by_request
WHERE state = 'Planned' AND drains != 0 AND request = :value;

-- name: rollouts
-- The rollouts: their keys are adjacent.
SELECT * FROM requests WHERE request_id >= 'ro-' AND request_id < 'ro.' AND :value = '';

-- name: campaigns_open
-- The campaigns that have not ended.
SELECT * FROM campaigns WHERE ended = 0 AND :value = '';

-- name: campaigns_due
-- The campaigns with a timer.
SELECT * FROM campaigns WHERE due_at != 0 ORDER BY due_at;

-- name: rollouts_implying
-- The rollouts of several hosts without a stored campaign.
SELECT * FROM requests INDEXED BY requests_implying
WHERE at_once > 0 AND hosts > 1 AND campaign = '' AND :value = '';

-- name: rollouts_implying_open
-- Those that are open.
SELECT * FROM requests INDEXED BY requests_implying_open
WHERE state = 'Open' AND at_once > 0 AND hosts > 1 AND campaign = '' AND :value = '';

-- name: requests_in_flight
-- The requests with hosts that are announced or in work.
SELECT * FROM requests INDEXED BY requests_in_flight
WHERE in_flight > 0 AND :value = '';

-- name: requests_unplanned
-- The requests with hosts that have no operation yet.
SELECT * FROM requests WHERE hosts_unplanned > 0 AND :value = '';

-- name: unplanned_of_request
-- The pages of the hosts of a rollout that have no operation yet.
SELECT * FROM unplanned_pages WHERE request = :value;

-- name: unplanned_of_host
-- The pages with a host that has no operation yet.
SELECT unplanned_pages.* FROM unplanned_hosts AS links
CROSS JOIN unplanned_pages USING (page_id)
WHERE links.host = :value;

-- name: operations_that_wait
-- The operations that wait for something, by its name.
SELECT operations.* FROM operation_waits AS links
CROSS JOIN operations USING (operation_id)
WHERE links.wait = :value;

-- name: operations_due
-- The operations that must be rechecked by an instant.
SELECT * FROM operations WHERE due_at != 0 ORDER BY due_at;

-- name: open_visits
-- The visits that have not ended.
SELECT * FROM visits WHERE ended_at = 0 AND :value = '';

-- name: open_visits_of_host
-- The visits of a host that have not ended.
SELECT * FROM visits INDEXED BY visits_open_by_host
WHERE ended_at = 0 AND host = :value;

-- name: open_visits_of_request
-- The visits of a request that have not ended.
SELECT * FROM visits INDEXED BY visits_open_by_request
WHERE ended_at = 0 AND request = :value;

-- name: visits_of_request
-- The visits of a request.
SELECT * FROM visits WHERE request = :value;

-- name: visits_due
-- The visits with a timer at or before an instant.
SELECT * FROM visits WHERE due_at != 0 ORDER BY due_at;

-- name: visits_ended
-- The visits that ended at or before an instant.
SELECT * FROM visits WHERE ended_at != 0 ORDER BY ended_at;

-- name: operations_ended
-- The operations that ended at or before an instant.
SELECT * FROM operations WHERE ended_at != 0 ORDER BY ended_at;

-- name: events_of_operation
-- The events of an operation, one per scope.
SELECT * FROM events WHERE operation = :value;

-- name: live_events
-- The events that documents show.
SELECT * FROM events WHERE :value = '' AND status IN ('Scheduled', 'Started');

-- name: live_events_of_scope
-- The events that the documents of a scope show.
SELECT * FROM events WHERE status IN ('Scheduled', 'Started') AND scope = :value;

-- name: audit_of_subject
-- The audit entries about a subject, by their own links or through their operation.
SELECT * FROM audit WHERE entry_id IN (
    SELECT links.entry_id FROM audit_subjects AS links
    WHERE links.subject = :value AND links.entry_id > :after
    UNION
    SELECT audit.entry_id FROM audit
    WHERE substr(:value, 1, 10) = 'operation:' AND audit.operation != ''
        AND audit.operation = substr(:value, 11) AND audit.entry_id > :after
    UNION
    SELECT audit.entry_id FROM operation_vms AS links
    CROSS JOIN audit ON audit.operation = links.operation_id
    WHERE substr(:value, 1, 3) = 'vm:' AND links.vm = substr(:value, 4)
        AND audit.operation != '' AND audit.entry_id > :after
    UNION
    SELECT audit.entry_id FROM operation_scopes AS links
    CROSS JOIN audit ON audit.operation = links.operation_id
    WHERE substr(:value, 1, 6) = 'scope:' AND links.scope = substr(:value, 7)
        AND audit.operation != '' AND audit.entry_id > :after
    UNION
    SELECT audit.entry_id FROM operations
    CROSS JOIN audit ON audit.operation = operations.operation_id
    WHERE substr(:value, 1, 5) = 'host:' AND operations.host = substr(:value, 6)
        AND audit.operation != '' AND audit.entry_id > :after
    UNION
    SELECT audit.entry_id FROM operations
    CROSS JOIN audit ON audit.operation = operations.operation_id
    WHERE substr(:value, 1, 8) = 'request:' AND operations.request = substr(:value, 9)
        AND audit.operation != '' AND audit.entry_id > :after
    UNION
    SELECT audit.entry_id FROM events
    CROSS JOIN audit ON audit.operation = events.operation
    WHERE substr(:value, 1, 6) = 'event:' AND events.event_id = substr(:value, 7)
        AND audit.operation != '' AND audit.entry_id > :after
    UNION
    SELECT audit.entry_id FROM scopes
    CROSS JOIN operation_scopes AS links ON links.scope = scopes.name
    CROSS JOIN audit ON audit.operation = links.operation_id
    WHERE substr(:value, 1, 7) = 'tenant:' AND scopes.tenant = substr(:value, 8)
        AND audit.operation != '' AND audit.entry_id > :after
    UNION
    SELECT audit.entry_id FROM audit_subjects AS past
    CROSS JOIN audit AS ended ON ended.entry_id = past.entry_id
    CROSS JOIN json_each(ended.subjects) AS scope
    CROSS JOIN operation_scopes AS links ON links.scope = substr(scope.value, 14)
    CROSS JOIN audit ON audit.operation = links.operation_id
    WHERE substr(:value, 1, 7) = 'tenant:'
        AND past.subject = 'ownership-by:' || substr(:value, 8)
        AND substr(scope.value, 1, 13) = 'ownership-of:'
        AND audit.operation != '' AND audit.entry_id > :after
) AND (
    operation = '' OR EXISTS (
        SELECT 1 FROM json_each(audit.subjects) AS subject
        WHERE subject.value = :value
    )
)
ORDER BY entry_id LIMIT :limit;

-- name: audit_at
-- The audit entries at or before an instant.
SELECT * FROM audit WHERE at != 0 ORDER BY at;

-- name: audit_keys
-- The least and the greatest key of the audit entries of a period.
SELECT min(entry_id), max(entry_id) FROM audit
WHERE at != 0 AND at >= :first AND at < :end;

-- name: outbox_of_receiver
-- The undelivered messages of one receiver, oldest first.
SELECT * FROM outbox WHERE receiver = :value;

-- name: spans_of_vm
-- The spans of a VM, oldest first.
SELECT * FROM spans WHERE vm = :value;

-- name: spans_of_scope
-- The spans of the VMs of a scope, grouped by VM.
SELECT * FROM spans WHERE scope = :value;

-- name: outages_of_scope
-- The interruptions of the VMs of a scope.
SELECT * FROM spans WHERE operation != '' AND scope = :value;

-- name: spans_of_tenant
-- The spans of the VMs of a tenant, grouped by VM.
SELECT * FROM spans WHERE tenant = :value;

-- name: spans_of_operation
-- The outages that an operation caused.
SELECT * FROM spans WHERE operation != '' AND operation = :value;

-- name: open_spans_of_vm
-- The open spans of a VM.
SELECT * FROM spans WHERE ended = 0 AND vm = :value;

-- name: spans_ended
-- The spans that ended at or before an instant.
SELECT * FROM spans WHERE ended != 0 ORDER BY ended;

-- name: order_keys_expired
-- The Idempotency-Keys that expire at or before an instant.
SELECT * FROM order_keys WHERE expires_at != 0 ORDER BY expires_at;

-- name: tokens_of_tenant
-- The tokens of a tenant; with '', those of operators.
SELECT * FROM tokens WHERE tenant = :value AND host = '';

-- name: tokens_of_relay
-- The tokens of the relay of a host.
SELECT * FROM tokens WHERE host != '' AND host = :value;

-- name: losses_in_rack
-- The lost hosts of a rack that the brake counts.
SELECT * FROM losses WHERE rack != '' AND rack = :value;

-- name: all_abilities
-- What the driver told about hosts.
SELECT * FROM host_abilities WHERE :value = '';

-- name: all_relay_links
-- The relays of all hosts.
SELECT * FROM relay_links WHERE :value = '';

-- name: relay_of_host
-- The relay of a host.
SELECT * FROM relay_links WHERE host = :value;

-- name: relays_silent
-- The relays that have not confirmed what their VMs must see.
SELECT * FROM relay_links WHERE silent_since != 0 AND :value = '';

-- name: all_blackouts
-- The blackouts of the service.
SELECT * FROM blackouts WHERE :value = '';

-- name: losses_due
-- The losses that the brake no longer counts after an instant.
SELECT * FROM losses WHERE due_at != 0 ORDER BY due_at;
