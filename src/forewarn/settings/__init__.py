"""Readers of all files that people write: settings, scenarios, faults and addresses.

A format is a declaration. An `Option` describes one setting: its form, its bounds and
its meaning. A form (`forms`) defines how a file, a flag or a variable writes a value,
and how the value is displayed. A `Reader` (`tables`) takes values from a file, the
environment and flags. It collects all problems, each with its file and line, its
variable or its flag. Each format checks its own rules between settings.

This package uses only the standard library and runs on Python 3.9, since the agent
imports it in every VM.
"""
