-- A service that is started with another kind of driver does not take that one's word
-- for calls that it never got. Of calls that were made before this step, the kind is
-- not known.

-- The kind of driver that the present call was given to; '' is not known, or none.
ALTER TABLE operations ADD COLUMN driver TEXT NOT NULL DEFAULT '';
