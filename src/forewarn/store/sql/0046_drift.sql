-- Hosts that match a running campaign and were added to the fleet after its start.
ALTER TABLE hosts ADD COLUMN drift_of TEXT NOT NULL DEFAULT '';

CREATE INDEX hosts_drift ON hosts (drift_of, name) WHERE drift_of != '';
