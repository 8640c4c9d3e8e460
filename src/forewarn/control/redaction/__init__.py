"""What a tenant may know: values in, values out, and a reader that shows no more."""
