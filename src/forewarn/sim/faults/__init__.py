"""What goes wrong between a VM and its endpoint, as values, and who plays it."""
