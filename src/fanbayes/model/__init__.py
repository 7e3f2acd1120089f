"""What is believed: structures, blocks of columns, networks."""
