-- Emergency campaigns that wait for a second person.
ALTER TABLE campaigns ADD COLUMN is_released INTEGER NOT NULL DEFAULT 1;
