"""Measurements of a running `forewarn serve`, next to baselines of the same run.

`make bench` prints each target as met or missed. Absolute numbers depend on the
machine, so compare ratios within one run. Nothing here is a test.
"""
