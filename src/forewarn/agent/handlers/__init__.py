"""The handlers, which prepare a VM for an event and recover it afterwards.

`port` defines the interface of a kind. `exec` has the generic kinds exec and python, and
`webhook` the third. `runner` runs each handler in a thread and reports the result to the main loop.
This package does not decide which handler runs, or when.
"""
