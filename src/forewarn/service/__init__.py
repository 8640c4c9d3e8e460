"""The assembly: one running service from settings, clock, store and driver.

What `forewarn serve`, the simulator and the tests all start. Everything below
is joined here and nowhere else; several services may run in one process.
"""
