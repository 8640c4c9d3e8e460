-- A driver that has lost its memory of calls must not report that a call was not
-- started, because the call would be made twice. Each call is stored with the identity
-- of the memory that got it. Calls from before this step have no identity.

-- The identity of the driver's memory; '': unknown, or no call.
ALTER TABLE operations ADD COLUMN driver_memory TEXT NOT NULL DEFAULT '';
