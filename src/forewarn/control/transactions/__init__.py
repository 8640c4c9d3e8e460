"""One transaction: its writes, its publication, and the effects after its commit."""
