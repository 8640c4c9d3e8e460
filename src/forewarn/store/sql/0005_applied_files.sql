-- A start with the last applied fleet file need not apply it again. Files that were
-- applied before this step are unknown.

-- The last applied fleet file.
CREATE TABLE applied_files (
    name TEXT NOT NULL PRIMARY KEY,  -- there is one: 'fleet'
    digest TEXT NOT NULL,  -- of its text, and of the version that read it
    revision INTEGER NOT NULL
) WITHOUT ROWID;
