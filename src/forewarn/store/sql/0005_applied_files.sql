-- A start with the fleet file that was applied last need not read it again. Of a
-- fleet that was applied before this step, nothing is known.

-- Which fleet file was applied last.
CREATE TABLE applied_files (
    name TEXT NOT NULL PRIMARY KEY,  -- there is one: 'fleet'
    digest TEXT NOT NULL,  -- of its text, and of the version that read it
    revision INTEGER NOT NULL
) WITHOUT ROWID;
