"""How it is learnt: expectation, EM, starts, scores, selection."""
