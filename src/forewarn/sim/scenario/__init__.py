"""Scenarios: what happens to a fleet, step by step, as a file that anybody can write."""
