"""What a tenant may see: redaction of values, and a filtered store reader."""
