-- A rollout of many hosts becomes operations a page at a time. What was ordered before
-- this step has all of them.

ALTER TABLE requests ADD COLUMN unplanned TEXT NOT NULL DEFAULT '[]';

CREATE INDEX requests_unplanned ON requests (request_id) WHERE unplanned != '[]';
