"""The parts of the demo that are not its story."""
