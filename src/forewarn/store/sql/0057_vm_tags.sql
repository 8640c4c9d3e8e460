-- Find the VMs with a tag without reading the others.
CREATE TABLE vm_tags (
    tag TEXT NOT NULL,  -- role=web
    name TEXT NOT NULL,
    PRIMARY KEY (tag, name)
) WITHOUT ROWID;

INSERT OR IGNORE INTO vm_tags (tag, name)
SELECT json_extract(tag.value, '$[0]') || '=' || json_extract(tag.value, '$[1]'), name
FROM vms, json_each(vms.tags) AS tag;
