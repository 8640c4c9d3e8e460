"""The locks that limit how many VMs are approved at once: one module for each kind.

`port` is what a kind promises, `locker` asks it in a thread of its own, `making` finds it
by its name. Three kinds keep a list of holders in a text that several agents share:
`roster` is that text, `register` changes it. Nothing of this is imported where the
settings have no lock.
"""
