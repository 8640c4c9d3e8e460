-- Stored values follow the names in the code: "announced", "no capacity" and "ownership
-- history".
DROP INDEX operations_announced_by_request;
UPDATE operations SET state = 'Announced' WHERE state = 'Noticed';
CREATE INDEX operations_announced_by_request ON operations (request, operation_id)
    WHERE state IN ('Announced', 'Ready');
UPDATE operations
SET held_by = replace(held_by, '"kind":"no room"', '"kind":"no capacity"')
WHERE held_by LIKE '%"kind":"no room"%';
UPDATE audit SET kind = 'operation announced' WHERE kind = 'operation noticed';
UPDATE audit SET facts = replace(facts, '"kind":"no room"', '"kind":"no capacity"')
WHERE facts LIKE '%"kind":"no room"%';
UPDATE audit
SET subjects = replace(
    replace(subjects, '"tenure-of:', '"ownership-of:'),
    '"tenure-by:', '"ownership-by:'
)
WHERE subjects LIKE '%"tenure-%';
UPDATE audit_subjects SET subject = 'ownership-' || substr(subject, 8)
WHERE subject >= 'tenure-by:' AND subject < 'tenure-of;';
