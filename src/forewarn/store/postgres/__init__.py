"""The store in PostgreSQL, for services that must survive their machine."""
