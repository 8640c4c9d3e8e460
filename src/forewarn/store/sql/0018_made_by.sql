-- Who made a token is kept as a value.
UPDATE tokens SET created_by = CASE
    WHEN instr(created_by, '/') != 0 AND substr(created_by, 1, 5) != 'unix:' THEN
        json_object(
            'kind', 'tenant',
            'name', substr(created_by, instr(created_by, '/') + 1),
            'tenant', substr(created_by, 1, instr(created_by, '/') - 1)
        )
    ELSE json_object('kind', 'operator', 'name', created_by)
END;

-- Why there is no room, and what a host is in use by, are kept as values. What was kept
-- as a sentence before is found out when the operation is looked at again.
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
