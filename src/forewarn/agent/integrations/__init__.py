"""Handlers and receivers for programs that many know: kubernetes, haproxy, Slack …

Each is one module, named after its word in the settings, with its keys, its checks and
what it does; `catalog` has them all, and loads only those that the settings use. They
know the handler port and the port of receivers; no rule, document or endpoint.
"""
