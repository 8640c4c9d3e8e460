"""The agent's decisions, as pure functions on values.

Nothing here reads a clock, a socket, a file or a random number. `model` has the
memory, the inputs and the commands. `policy` has the settings as values. Only `table`
changes the stage of a task. `decide` combines the other modules into one decision.
"""
