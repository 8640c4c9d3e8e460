-- Find the hosts of a zone, cluster, rack or pool, or with a label, without reading the
-- others.
CREATE TABLE host_places (
    place TEXT NOT NULL,  -- rack=r7, label=model=r7525
    name TEXT NOT NULL,
    PRIMARY KEY (place, name)
) WITHOUT ROWID;

INSERT INTO host_places (place, name)
SELECT 'zone=' || zone, name FROM hosts WHERE zone != ''
UNION SELECT 'cluster=' || cluster, name FROM hosts WHERE cluster != ''
UNION SELECT 'rack=' || rack, name FROM hosts WHERE rack != ''
UNION SELECT 'pool=' || pool, name FROM hosts WHERE pool != ''
UNION SELECT
    'label=' || json_extract(label.value, '$[0]') || '='
    || json_extract(label.value, '$[1]'),
    name
FROM hosts, json_each(hosts.labels) AS label;
