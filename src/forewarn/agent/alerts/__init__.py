"""Read and count active alerts of Prometheus or Alertmanager.

`selecting` decides which alerts count, `reading` parses a response, and `server` sends
the requests in a thread. None of them knows events or the purpose of the result.
"""
