"""The agent: runs in each VM, prepares for maintenance, approves, recovers.

`core` decides, and does no I/O; everything else here carries out what it decides.
The standard library only: this package runs where nothing else is installed.
"""
