"""Finite-mixture-augmented naive Bayes classifiers."""
