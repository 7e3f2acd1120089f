"""How it is learnt: E-step, EM, starts, scores, selection."""
