-- A driver that has lost its memory of calls must not say that a call was not started:
-- the call would be made twice. Each call is stored with the identity of the memory
-- that it was given to. Calls that were made before this step have no identity.

-- The identity of the driver's memory; '' is not known, or there is no call.
ALTER TABLE operations ADD COLUMN driver_memory TEXT NOT NULL DEFAULT '';
