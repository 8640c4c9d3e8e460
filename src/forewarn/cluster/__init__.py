"""How replicas of the service share one database: values and decisions. Pure.

One replica leads: it decides and calls the driver. The others follow: they serve the
documents that the leader has committed. All times are seconds of the replica's own
monotonic clock, and no wall clock decides anything. `CLOCK_ERROR` says how much the
rates of two clocks may differ.
"""
