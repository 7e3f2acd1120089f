"""From probabilities to decisions, under costs and under a class balance other than the one learnt from."""
