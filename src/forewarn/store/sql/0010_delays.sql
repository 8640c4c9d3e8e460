-- The end of a delay was stored even without a delay, and compared with the clock, so
-- that a step of the clock hid events again. Now 0 means: no delay, or it is over.
UPDATE views SET ready_at = 0, events_from = 0, due_at = 0
WHERE due_at = 0 OR state != 'Enabled';
