"""Active alerts of Prometheus or Alertmanager: asked for, read, and counted.

`selecting` says which alerts count, `reading` what an answer says, and `server` asks, in a
thread. None of it knows an event, or what the answer is for.
"""
