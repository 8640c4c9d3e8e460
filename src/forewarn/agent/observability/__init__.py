"""How the agent tells of itself: health, status, metrics, notifications, systemd.

Everything here reads what others publish as values, and holds nobody up.
"""
