"""Datasets and the two studies of the paper."""
