-- Whether NotBefore was given by hand. Of what was ordered before this step that is not
-- known any more; what needs nobody's approval has started.
ALTER TABLE operations ADD COLUMN is_timed INTEGER NOT NULL DEFAULT 0;
