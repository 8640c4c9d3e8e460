"""Who carries an operation out: one port, and what stands behind it."""
