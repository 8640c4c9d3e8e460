"""The endpoint that VMs ask: who asks, which document, bytes out.

`endpoint` is the core: it decides every answer from values that control has
published, and knows no socket. `server` is the shell around it: HTTP on asyncio.
What the endpoint cannot answer by itself it asks through `gateway`.
"""
