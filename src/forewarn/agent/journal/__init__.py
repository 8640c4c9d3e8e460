"""The agent's memory on disk: what it decided, before anything of it is done.

`port` is what the main loop knows; `sqlite` and `memory` keep its contract; `opening`
chooses between them; `gateway` is for other processes, which order and read. Nothing
here decides.
"""
