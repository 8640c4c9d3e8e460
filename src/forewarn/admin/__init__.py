"""The operator API: requests in, reports out, over HTTP.

`app.create_app` creates it, and `tokens.read_tokens` reads the tokens of its users. It
uses the control plane only through the `OperatorGateway`, and decides nothing itself.
It must not import the service or the endpoint for VMs.
"""
