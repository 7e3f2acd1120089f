"""What is believed: structures, families, networks."""
