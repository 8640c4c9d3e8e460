"""Play a campaign on a copy of the fleet and a virtual clock, before it is started.

`fleet_copy` reads the fleet, `hosts` is the hypervisor, and `play` runs the control plane
until the campaign ends. `reporting.campaign_simulations` says what came of it.
"""
