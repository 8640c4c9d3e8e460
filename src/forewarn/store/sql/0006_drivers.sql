-- If a service starts with another kind of driver, it does not trust that driver about
-- calls that the driver never got. The kind is unknown for calls from before this step.

-- The kind of driver that got the current call; '': unknown, or no call.
ALTER TABLE operations ADD COLUMN driver TEXT NOT NULL DEFAULT '';
