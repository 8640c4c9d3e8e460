"""What operators, VMs and fleet files ask for, and what becomes of it."""
