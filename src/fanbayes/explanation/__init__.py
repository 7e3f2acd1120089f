"""What a fitted model can tell: contributions of the features, information, profiles of components, parameters."""
