"""The relay of a host: the metadata endpoint for its VMs, with the service behind it.

`knowledge` decides what a line of the service's stream changes (pure). `upstream` keeps
the stream, `gateway` sends what VMs ask, `memory` is the file that outlives the process,
and `process` puts the parts together.
"""
