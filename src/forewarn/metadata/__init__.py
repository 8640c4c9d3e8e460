"""The endpoint for VMs: it identifies the caller and responds with its document.

`endpoint` is the core: it decides every response from values that control has
published, and has no sockets. `server` is the shell around it: HTTP on asyncio.
The endpoint asks control through `gateway` for everything else.
"""
