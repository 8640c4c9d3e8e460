"""The journal: the agent's durable memory, written before a decision is carried out.

`port` is the interface that the main loop uses. `sqlite` and `memory` implement it, and
`opening` chooses between them. `client` is for other processes, which read the journal
and request approvals. Nothing here makes decisions.
"""
