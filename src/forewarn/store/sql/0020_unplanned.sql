-- The operations of a large rollout are created one page of hosts at a time. Requests
-- from before this step have all of their operations.

ALTER TABLE requests ADD COLUMN unplanned TEXT NOT NULL DEFAULT '[]';

CREATE INDEX requests_unplanned ON requests (request_id) WHERE unplanned != '[]';
