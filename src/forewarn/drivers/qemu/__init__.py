"""The driver for bare QEMU: its programs speak QMP to the monitors of VMs."""
