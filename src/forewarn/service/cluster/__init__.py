"""The threads with which a replica takes part in a cluster."""
