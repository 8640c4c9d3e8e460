"""Checks as values: what one asks, how its answer is judged, and the last results.

A check is a question to another system, such as an error rate in Prometheus, before more
hosts are put at risk. Its outcome is pass, fail or unknown: nothing that hinders the
question counts as either of the others. This package is pure; `service.checks` asks.
"""
