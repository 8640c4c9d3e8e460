"""A world for tests of what runs in VMs: its VMs, events, faults and assertions.

`world` is the front; everything else is what it hands out, or what those share. It
knows no test runner.
"""
