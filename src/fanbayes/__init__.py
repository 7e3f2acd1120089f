"""Finite-mixture-augmented naive Bayes: calibrated probabilities from mixed, incomplete tables."""

from fanbayes.estimators.classifiers import FANClassifier, FMClassifier, NBClassifier
from fanbayes.estimators.discretizer import MDLPDiscretizer

__all__ = ["FANClassifier", "FMClassifier", "MDLPDiscretizer", "NBClassifier"]
__version__ = "0.1.0"
