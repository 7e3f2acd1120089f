"""Predictors made of several: candidates, the rows they are judged by, and the weights of those that remain."""
