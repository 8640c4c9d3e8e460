-- The tokens of the operator API, and all operations by scope, so that a query of a
-- tenant reads no records of other tenants.

-- Tokens, valid until they expire or are revoked.
CREATE TABLE tokens (
    token_id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,  -- '' is an operator's
    read_only INTEGER NOT NULL,
    digest TEXT NOT NULL,  -- SHA-256 of the secret, which is kept nowhere
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    revision INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX tokens_by_tenant ON tokens (tenant, token_id);

-- The scopes of operations, including ended ones.
CREATE TABLE operation_scopes (
    scope TEXT NOT NULL,
    operation_id TEXT NOT NULL,
    PRIMARY KEY (scope, operation_id)
) WITHOUT ROWID;

INSERT INTO operation_scopes
SELECT DISTINCT scope.value, operations.operation_id
FROM operations, json_each(operations.scopes) AS scope;
