"""The locks that limit how many VMs are approved at the same time, one module per kind.

`port` defines the interface of a kind and creates it by its name. `locker` uses it in a
thread. Three kinds store a list of holders in a text that all agents share: `roster` is
the format of that text, and `register` changes it. If the settings have no lock, none of
this is imported.
"""
