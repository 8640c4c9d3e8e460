"""What may be said on the wire, and when.

Values in, values out: nothing here reads a clock, a socket, a file or a random
number. `docs/reference/protocol.md` has the clauses that the comments cite.
"""
