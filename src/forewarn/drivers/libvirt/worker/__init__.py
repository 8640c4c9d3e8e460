"""The process that uses libvirt's C library, on a Python of the machine.

It may use the standard library of Python 3.9, the module `libvirt`, and this package, but
nothing else of forewarn: the service's interpreter and the machine's can differ.
"""
