"""Checks whether an endpoint follows the protocol, with evidence and a report.

`inquiry` sends requests and records the answers. `checks` lists every check, and
`examination` runs them. `check` defines the verdicts: no clause passes or fails
without evidence.
"""
