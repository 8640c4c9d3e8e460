"""Measurements of a running `forewarn serve`, beside baselines of the same minute.

`make bench` prints each bar as met or missed. Absolute numbers belong to the
machine; ratios within one run are what to compare. Nothing here is a test.
"""
