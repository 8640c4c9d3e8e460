"""The locks that limit how many VMs are approved at the same time, one module per kind.

`port` defines the interface of a kind, creates it by its name, and uses it in a thread.
Three kinds store a list of holders in a text that all agents share: `register` has the
format of that text, and changes it. If the settings have no lock, none of
this is imported.
"""
