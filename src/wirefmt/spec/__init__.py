"""Names and numbers of the specifications, as literal tables."""
