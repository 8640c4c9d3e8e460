"""Handlers for common programs, such as Kubernetes, HAProxy and systemd.

Each handler is one module or package, named after its kind in the settings. It has the
keys of the kind, their checks, and the work. `registry` lists all kinds and loads only
those that the settings use. They depend on the handler port, but not on rules, documents
or the endpoint.
"""
