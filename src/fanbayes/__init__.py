"""Finite-mixture-augmented naive Bayes: calibrated probabilities from mixed, incomplete tables."""

from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier

__all__ = ["FANClassifier", "FMClassifier", "NBClassifier"]
__version__ = "0.1.0"
