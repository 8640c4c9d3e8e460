-- Why an operation ended, or what it met, is kept as a value. What was kept as a sentence
-- before is shown as it is.
UPDATE operations SET note = json_object(
    'kind',
    CASE WHEN call_state IN ('retry', 'unknown') THEN 'call end' ELSE 'said' END,
    CASE WHEN call_state IN ('retry', 'unknown') THEN 'said' ELSE 'text' END,
    note
)
WHERE note != '';
