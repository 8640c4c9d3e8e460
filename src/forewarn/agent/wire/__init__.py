"""The agent's network connections: its HTTP client, and the endpoint.

Nothing here decides what to do about an event.
"""
