"""The public test kit: for those who test an application, or another server.

`checks` asks any metadata endpoint whether it keeps the protocol.
"""
