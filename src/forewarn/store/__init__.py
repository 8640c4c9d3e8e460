"""The durable store: its port, its implementations, and its records."""
