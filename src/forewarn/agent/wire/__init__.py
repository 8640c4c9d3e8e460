"""What the agent says and hears over sockets: its HTTP client, and the endpoint.

Nothing here decides what is done about an event.
"""
