"""Sentences for people, rendered from values where they are shown; none is read back.

Each audience has a module: `operators` (command line, API and log), `tenants` and `vms`.
The agent has its own, `agent.sinks.wording`. Pure.
"""
