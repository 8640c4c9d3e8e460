-- Roles of tokens. They replace the flag for tokens that only read.
CREATE TABLE tokens_with_roles (
    token_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,  -- '' is an operator's
    roles TEXT NOT NULL,  -- JSON list, in the order of the roles
    digest TEXT NOT NULL,  -- SHA-256 of the secret, which is kept nowhere
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,  -- the actor, JSON
    expires_at INTEGER NOT NULL,
    last_used_at INTEGER NOT NULL,  -- the hour; 0: never
    is_unauthenticated INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

-- An unrestricted token keeps all its rights, and a read-only token reads.
INSERT INTO tokens_with_roles
SELECT
    token_id, name, tenant,
    CASE
        WHEN read_only THEN '["view"]'
        WHEN tenant != '' THEN '["view","run","approve"]'
        ELSE '["view","plan","run","approve","emergency"]'
    END,
    digest, created_at, created_by, expires_at, last_used_at, is_unauthenticated,
    revision
FROM tokens;

DROP TABLE tokens;
ALTER TABLE tokens_with_roles RENAME TO tokens;
CREATE INDEX tokens_by_tenant ON tokens (tenant, token_id);
