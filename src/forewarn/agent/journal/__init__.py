"""The journal: the agent's durable memory, written before a decision is carried out.

`port` is the interface that the main loop uses, with a substitute in memory. `sqlite`
implements it in a file, and `opening` chooses between them. Nothing here makes
decisions.
"""
