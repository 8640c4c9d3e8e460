"""From the start of an operation to its end: impact, driver calls, downtime, ending."""
