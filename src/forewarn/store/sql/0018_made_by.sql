-- The creator of a token is stored as a value.
UPDATE tokens SET created_by = CASE
    WHEN instr(created_by, '/') != 0 AND substr(created_by, 1, 5) != 'unix:' THEN
        json_object(
            'kind', 'tenant',
            'name', substr(created_by, instr(created_by, '/') + 1),
            'tenant', substr(created_by, 1, instr(created_by, '/') - 1)
        )
    ELSE json_object('kind', 'operator', 'name', created_by)
END;

-- The reasons of missing capacity and of a busy host are stored as values. Reasons that
-- were stored as sentences are determined at the next recheck of the operation.
UPDATE operations SET held_by = '[]'
WHERE EXISTS (
    SELECT 1 FROM json_each(held_by) AS blocker
    WHERE json_extract(blocker.value, '$.kind') IN ('no room', 'host in use')
);
UPDATE audit SET facts = json_remove(facts, '$.blockers')
WHERE EXISTS (
    SELECT 1 FROM json_each(facts, '$.blockers') AS blocker
    WHERE json_extract(blocker.value, '$.kind') IN ('no room', 'host in use')
);
