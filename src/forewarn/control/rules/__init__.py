"""What must hold before an operation starts: decisions on values and what they read."""
