-- The limit on hosts in flight that rollouts share with all campaigns, and who uses it.
ALTER TABLE requests ADD COLUMN shared_most INTEGER NOT NULL DEFAULT 0;
CREATE INDEX requests_in_flight ON requests (request_id) WHERE in_flight > 0;
