-- Keep the number of hosts of each place as a tally.
INSERT INTO tallies (name, count, revision)
SELECT 'hosts at ' || place.value, count(*), 0
FROM rooms, json_each(rooms.stands_at) AS place
GROUP BY place.value;
