"""What can be ordered: one table, from which every way to give an order is made."""
