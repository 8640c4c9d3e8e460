"""A world for tests of programs in VMs: its VMs, events, faults and assertions.

`world` is the entry point. The other modules are the objects that it returns, or shared
code. The kit does not depend on a test runner.
"""
