"""Read and count active alerts of Prometheus or Alertmanager.

`reading` parses a response and decides which alerts count, and `server` sends the
requests in a thread. Neither module knows events or the purpose of the result.
"""
