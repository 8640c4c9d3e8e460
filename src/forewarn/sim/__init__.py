"""The simulator: the whole service in one thread, on the machine's or a virtual clock."""
