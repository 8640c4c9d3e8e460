"""What the agent decides: values in, values out.

Nothing here reads a clock, a socket, a file or a random number. `model` has what is
remembered and what is to be done, `policy` what the settings want; `table` is the
only place where a task's stage changes; `decide` turns one into the other.
"""
