"""One running service, assembled from settings, clock, store and driver.

`forewarn serve`, the simulator and the tests use it. Only this package joins the
components of the lower layers. Several services can run in one process.
"""
