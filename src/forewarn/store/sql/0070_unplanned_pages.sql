-- The hosts of a rollout that have no operation yet, in pages. The whole list was a
-- column of the request before, and was written again for each page. That column is not
-- used any more; it remains, so that replicas of the version before can read requests.
CREATE TABLE unplanned_pages (
    page_id TEXT NOT NULL PRIMARY KEY,
    request TEXT NOT NULL,
    hosts TEXT NOT NULL,  -- JSON
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX unplanned_pages_of_request ON unplanned_pages (request, page_id);

-- The pages by their hosts.
CREATE TABLE unplanned_hosts (
    host TEXT NOT NULL,
    page_id TEXT NOT NULL,
    PRIMARY KEY (host, page_id)
) WITHOUT ROWID;

-- A list that is left becomes pages of one host each.
INSERT INTO unplanned_pages (page_id, request, hosts, revision)
SELECT
    json_extract(pair.value, '$[0]'), requests.request_id, '[' || pair.value || ']', 0
FROM requests, json_each(requests.unplanned) AS pair;

INSERT INTO unplanned_hosts (host, page_id)
SELECT json_extract(pair.value, '$[1]'), json_extract(pair.value, '$[0]')
FROM requests, json_each(requests.unplanned) AS pair;

ALTER TABLE requests ADD COLUMN hosts_unplanned INTEGER NOT NULL DEFAULT 0;

UPDATE requests SET
    hosts_unplanned = (
        SELECT count(*) FROM unplanned_pages
        WHERE unplanned_pages.request = requests.request_id
    ),
    unplanned = '[]'
WHERE unplanned != '[]';

DROP INDEX requests_unplanned;
CREATE INDEX requests_unplanned ON requests (request_id) WHERE hosts_unplanned > 0;
