"""The protocol: wire formats, states and transitions.

Values in, values out: nothing here reads a clock, a socket, a file or a random
number. Comments cite the clauses of `docs/reference/protocol.md`.
"""
