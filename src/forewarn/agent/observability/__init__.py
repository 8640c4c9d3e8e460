"""Output of the agent: health, status, metrics, notifications, systemd.

Everything here reads published values, and delays nothing else.
"""
