"""Requests of operators, VMs and fleet files, and their follow-ups."""
