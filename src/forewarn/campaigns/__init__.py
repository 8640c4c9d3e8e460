"""Campaigns: maintenance of many hosts, as values.

`file` reads a campaign file. `fleet_map` holds a fleet in arrays, `selection` finds the
hosts of a campaign, and `planner` returns its plan: the order of the hosts, the budgets
as numbers, the constraint that binds, the hosts that cannot be done, and a forecast.

A plan is a forecast. It changes nothing, and the guard at Started decides whatever a
plan says. Pure: no I/O, clock, logging or randomness.
"""
