"""Files as the real datasets have them, with the same bytes for the same content."""
