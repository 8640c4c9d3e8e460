"""Read settings: one engine for the service, the agent and what follows them.

A format is a declaration. An `Option` is one setting: its form, its bounds and its
meaning. A form (`forms`) says how a file, a flag or a variable writes a value, and how a
person is shown it. A `Reader` (`reading`) takes values from a file, the environment and
flags, and keeps every problem with its file and line, its variable or its flag. What
must hold between settings, and the values that are made of them, belong to each format.

The standard library only, on Python 3.9 and newer: the agent uses it in every VM.
"""
