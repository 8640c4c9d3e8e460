"""The operator API: orders in, reports out, over HTTP.

`app.create_app` makes it, `tokens.read_tokens` says who may use it. It knows the
control plane through one door, the `OperatorGateway`, and decides nothing by itself.
It must not know how the service is put together, nor the endpoint that VMs ask.
"""
