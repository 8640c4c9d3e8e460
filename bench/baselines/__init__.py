"""Programs to compare with; each gives one answer to whatever is asked."""
