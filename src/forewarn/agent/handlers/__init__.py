"""The agent's hands: what is done before and after an event.

`port` is what a kind of handler is; `exec`, `webhook` and `python` are the first
kinds; `runner` gives each run a thread and tells the main loop how it ended. Nothing
here decides what to run, or when.
"""
