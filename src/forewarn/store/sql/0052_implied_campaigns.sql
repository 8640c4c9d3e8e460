-- Rollouts of several hosts without a stored campaign, all of them and the open ones.
CREATE INDEX requests_implying ON requests (request_id)
WHERE at_once > 0 AND hosts > 1 AND campaign = '';
CREATE INDEX requests_implying_open ON requests (request_id)
WHERE state = 'Open' AND at_once > 0 AND hosts > 1 AND campaign = '';
-- A larger overlap_notice with which hosts in flight can have been announced.
ALTER TABLE campaigns ADD COLUMN overlap_before INTEGER NOT NULL DEFAULT 0;
