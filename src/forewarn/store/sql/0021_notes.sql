-- The reason of an operation's end, or its problem, is stored as a value. Older sentences
-- are shown unchanged.
UPDATE operations SET note = json_object(
    'kind',
    CASE WHEN call_state IN ('retry', 'unknown') THEN 'call end' ELSE 'said' END,
    CASE WHEN call_state IN ('retry', 'unknown') THEN 'said' ELSE 'text' END,
    note
)
WHERE note != '';
