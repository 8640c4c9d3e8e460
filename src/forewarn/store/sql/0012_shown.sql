-- A VM can approve the events that it was shown, even if its view changes. Both columns
-- are lists of marks: a view's ID, epoch and incarnation. For events from before this
-- step, the views are unknown: '*' means each view of their scope.
ALTER TABLE events ADD COLUMN shown_in TEXT NOT NULL DEFAULT '["*"]';
ALTER TABLE vms ADD COLUMN left_views TEXT NOT NULL DEFAULT '[]';
