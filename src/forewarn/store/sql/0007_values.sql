-- Actors and blockers of operations are stored as values instead of sentences. The
-- blockers from before this step are determined at the next recheck of an operation.

-- The last blockers that the guard found for a Ready operation.
ALTER TABLE operations ADD COLUMN held_by TEXT NOT NULL DEFAULT '[]';

-- VMs that were part of an operation and left it.
ALTER TABLE operations ADD COLUMN left_vms TEXT NOT NULL DEFAULT '[]';

-- The actor who cancelled an operation; empty: it was not cancelled by request. The
-- note has the name, and the reason after a colon, which no name contains.
ALTER TABLE operations ADD COLUMN cancelled_by TEXT NOT NULL DEFAULT '';

UPDATE operations SET cancelled_by = substr(note, 14)
WHERE state = 'Cancelled' AND substr(note, 1, 13) = 'cancelled by ';

UPDATE operations SET cancelled_by = substr(cancelled_by, 1, instr(cancelled_by, ':') - 1)
WHERE instr(cancelled_by, ':') != 0;

UPDATE operations SET cancelled_by =
    CASE
        WHEN cancelled_by IN ('clock', 'driver', 'vm') THEN json_object('kind', cancelled_by)
        WHEN substr(cancelled_by, 1, 3) = 'vm ' THEN
            json_object('kind', 'vm', 'name', substr(cancelled_by, 4))
        WHEN cancelled_by IN ('fleet file', 'webhooks', 'simulator') THEN
            json_object('kind', 'service', 'name', cancelled_by)
        WHEN instr(cancelled_by, '/') != 0 THEN json_object(
            'kind', 'tenant',
            'name', substr(cancelled_by, instr(cancelled_by, '/') + 1),
            'tenant', substr(cancelled_by, 1, instr(cancelled_by, '/') - 1)
        )
        ELSE json_object('kind', 'operator', 'name', cancelled_by)
    END
WHERE cancelled_by != '';

-- For the history of a host, including ended operations.
CREATE INDEX operations_by_host ON operations (host, operation_id);

-- The current term. Each service raises it with its first write.
CREATE TABLE leader (
    name TEXT NOT NULL PRIMARY KEY,
    term INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

-- The audit entries as values. Keys sort by term and number: older entries have term 0,
-- in their former order. Text that cannot be converted to values stays as text, which
-- only operators can see.
CREATE TABLE audit_of_values (
    entry_id TEXT NOT NULL PRIMARY KEY,  -- 000001.000000000042
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,  -- {"kind":"vm","name":"web_0"}
    kind TEXT NOT NULL,  -- event approved, operation ready, ...
    why TEXT NOT NULL,
    subjects TEXT NOT NULL,  -- ["vm:web_0","operation:op-4h7k2m9xqa"]
    operation TEXT NOT NULL,  -- op-4h7k2m9xqa; '' is about none
    facts TEXT NOT NULL,  -- {"by":{"kind":"vm","name":"web_0"}}
    revision INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO audit_of_values
SELECT
    '000000.' || entry_id,
    at,
    CASE
        WHEN actor IN ('clock', 'driver', 'vm') THEN json_object('kind', actor)
        WHEN substr(actor, 1, 3) = 'vm ' THEN
            json_object('kind', 'vm', 'name', substr(actor, 4))
        WHEN actor IN ('fleet file', 'webhooks', 'simulator') THEN
            json_object('kind', 'service', 'name', actor)
        WHEN instr(actor, '/') != 0 THEN json_object(
            'kind', 'tenant',
            'name', substr(actor, instr(actor, '/') + 1),
            'tenant', substr(actor, 1, instr(actor, '/') - 1)
        )
        ELSE json_object('kind', 'operator', 'name', actor)
    END,
    what,
    why,
    subjects,
    coalesce((
        SELECT substr(subject.value, 11) FROM json_each(audit.subjects) AS subject
        WHERE substr(subject.value, 1, 10) = 'operation:' LIMIT 1
    ), ''),
    CASE
        WHEN detail = '' THEN '{}'
        WHEN what = 'event approved' AND substr(detail, 1, 3) = 'by ' THEN
            json_object('by', json(CASE
        WHEN substr(detail, 4) IN ('(policy)', '(nobody listens)', '(down already)', '(failure)') THEN
            json_object('kind', 'policy', 'name', trim(substr(detail, 4), '()'))
        WHEN substr(substr(detail, 4), 1, 1) != '(' THEN json_object('kind', 'vm', 'name', substr(detail, 4))
        WHEN instr(substr(detail, 4), '/') != 0 THEN json_object(
            'kind', 'tenant',
            'name', substr(trim(substr(detail, 4), '()'), instr(substr(detail, 4), '/')),
            'tenant', substr(substr(detail, 4), 2, instr(substr(detail, 4), '/') - 2)
        )
        ELSE json_object('kind', 'operator', 'name', trim(substr(detail, 4), '()'))
    END))
        WHEN what = 'event removed' AND detail IN ('completed', 'cancelled', 'failed') THEN
            json_object('outcome', detail)
        ELSE json_object('text', detail)
    END,
    revision
FROM audit;

-- The subjects of an entry, unless it is found through its operation.
CREATE TABLE audit_subjects_of_values (
    subject TEXT NOT NULL,
    entry_id TEXT NOT NULL,
    PRIMARY KEY (subject, entry_id)
) WITHOUT ROWID;

-- Entries about an operation are found through it.
INSERT INTO audit_subjects_of_values
SELECT links.subject, '000000.' || links.entry_id
FROM audit_subjects AS links
JOIN audit_of_values AS entries ON entries.entry_id = '000000.' || links.entry_id
WHERE entries.operation = '';

DROP TABLE audit_subjects;
ALTER TABLE audit_subjects_of_values RENAME TO audit_subjects;
DROP TABLE audit;
ALTER TABLE audit_of_values RENAME TO audit;

CREATE INDEX audit_by_at ON audit (at, entry_id) WHERE at != 0;
CREATE INDEX audit_by_operation ON audit (operation, entry_id) WHERE operation != '';

-- The VMs that left an operation before this step, according to the audit entries.
INSERT OR IGNORE INTO operation_vms (vm, operation_id)
SELECT substr(subject.value, 4), audit.operation
FROM audit, json_each(audit.subjects) AS subject
WHERE substr(subject.value, 1, 3) = 'vm:' AND EXISTS (
    SELECT 1 FROM operations WHERE operations.operation_id = audit.operation
);

UPDATE operations SET left_vms = (
    SELECT json_group_array(links.vm) FROM operation_vms AS links
    WHERE links.operation_id = operations.operation_id AND NOT EXISTS (
        SELECT 1 FROM json_each(operations.moves) AS move
        WHERE json_extract(move.value, '$.vm') = links.vm
    )
);

-- Messages for receivers also sort by term and number.
UPDATE outbox SET message_id = '000000.' || message_id;

UPDATE requests SET actor = CASE
    WHEN actor IN ('clock', 'driver', 'vm') THEN json_object('kind', actor)
    WHEN substr(actor, 1, 3) = 'vm ' THEN json_object('kind', 'vm', 'name', substr(actor, 4))
    WHEN actor IN ('fleet file', 'webhooks', 'simulator') THEN
        json_object('kind', 'service', 'name', actor)
    WHEN instr(actor, '/') != 0 THEN json_object(
        'kind', 'tenant',
        'name', substr(actor, instr(actor, '/') + 1),
        'tenant', substr(actor, 1, instr(actor, '/') - 1)
    )
    ELSE json_object('kind', 'operator', 'name', actor)
END;

-- The approver of an event; empty: not approved.
ALTER TABLE events RENAME COLUMN approved_by TO approver;

UPDATE events SET approver = CASE
    WHEN approver IN ('(policy)', '(nobody listens)', '(down already)', '(failure)') THEN
        json_object('kind', 'policy', 'name', trim(approver, '()'))
    WHEN substr(approver, 1, 1) != '(' THEN json_object('kind', 'vm', 'name', approver)
    WHEN instr(approver, '/') != 0 THEN json_object(
        'kind', 'tenant',
        'name', substr(trim(approver, '()'), instr(approver, '/')),
        'tenant', substr(approver, 2, instr(approver, '/') - 2)
    )
    ELSE json_object('kind', 'operator', 'name', trim(approver, '()'))
END WHERE approver != '';

-- The approver in a message for a receiver, which is redacted when it is sent.
ALTER TABLE outbox ADD COLUMN approver TEXT NOT NULL DEFAULT '';

UPDATE outbox SET approver = json_extract(body, '$.approved_by')
WHERE json_extract(body, '$.approved_by') IS NOT NULL;

UPDATE outbox SET approver = CASE
    WHEN approver IN ('(policy)', '(nobody listens)', '(down already)', '(failure)') THEN
        json_object('kind', 'policy', 'name', trim(approver, '()'))
    WHEN substr(approver, 1, 1) != '(' THEN json_object('kind', 'vm', 'name', approver)
    WHEN instr(approver, '/') != 0 THEN json_object(
        'kind', 'tenant',
        'name', substr(trim(approver, '()'), instr(approver, '/')),
        'tenant', substr(approver, 2, instr(approver, '/') - 2)
    )
    ELSE json_object('kind', 'operator', 'name', trim(approver, '()'))
END WHERE approver != '';
