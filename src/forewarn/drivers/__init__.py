"""The driver port, and the drivers that carry operations out."""
