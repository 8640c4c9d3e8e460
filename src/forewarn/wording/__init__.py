"""Sentences for people, made from values for output only; no code parses them.

Each audience has a module: `operators` (command line, API and log), `tenants` and
`vms`. The agent has `agent.sinks.wording`. Pure.
"""
