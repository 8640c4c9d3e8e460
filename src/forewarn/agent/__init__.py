"""The agent, which runs in each VM: it prepares for maintenance, approves, recovers.

`core` makes the decisions and does no I/O. The other modules carry the decisions out.
The agent uses only the standard library, since it runs where nothing else is installed.
"""
