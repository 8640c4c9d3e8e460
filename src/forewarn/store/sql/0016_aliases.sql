-- A tenant sees aliases of the IDs of operations and requests. Their keys are derived
-- from a secret of the store. This step creates the secret for used stores; otherwise
-- the first write creates it.
ALTER TABLE leader ADD COLUMN secret TEXT NOT NULL DEFAULT '';
INSERT INTO leader (name, term, revision)
SELECT 'leader', 0, 0
WHERE EXISTS (SELECT 1 FROM operations) AND NOT EXISTS (SELECT 1 FROM leader);
UPDATE leader SET secret = lower(hex(randomblob(32)));
