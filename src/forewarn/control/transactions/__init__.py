"""One transaction: its writes, what it publishes, and what follows its commit."""
