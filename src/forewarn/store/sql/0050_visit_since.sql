-- The time at which a visit entered its state; 0: it did so before this step.
ALTER TABLE visits ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
