"""Components of the demo."""
