"""Programs to compare with; each returns one fixed response to all requests."""
