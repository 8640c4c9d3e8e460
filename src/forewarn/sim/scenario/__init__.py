"""Scenarios: events and operations on a fleet, step by step, from a file."""
