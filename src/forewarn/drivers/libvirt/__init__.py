"""The driver for libvirt: workers on a Python of the machine speak to the hosts."""
