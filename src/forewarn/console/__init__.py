"""The web console: static files that use the operator API, and the routes that serve
them.

The files are served as they are in this package, with no build step. Each is below a path
with the digest of all files, so that browsers keep it for good, and a module imports
another by a relative path. Pages are one shell, which names that path.
"""
