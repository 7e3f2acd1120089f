"""How good it is: metrics and significance tests."""
