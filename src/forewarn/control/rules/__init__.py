"""Rules for the start of operations: pure decisions, and the data that they read."""
