-- What a VM was shown stays approvable when its view changes. Both columns are lists of
-- marks: a view's id, epoch and incarnation. Of events from before this step the views
-- are not known: '*' stands for each view of their scope.
ALTER TABLE events ADD COLUMN shown_in TEXT NOT NULL DEFAULT '["*"]';
ALTER TABLE vms ADD COLUMN left_views TEXT NOT NULL DEFAULT '[]';
