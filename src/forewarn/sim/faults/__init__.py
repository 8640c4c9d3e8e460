"""Faults between a VM and its endpoint, as values, and their player."""
