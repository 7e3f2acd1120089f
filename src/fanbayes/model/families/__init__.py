"""Local distributions: statistics -> parameters -> log probability."""
