"""Draws of the parameters: what else they might be, given the rows.

Where nothing is hidden (naive Bayes or a tree, every row with a label) they are independent draws from the posterior:

    probabilities   Dirichlet(alpha + N), the posterior under the prior Dirichlet(alpha) of (2)
    variances       IG(A + N / 2, B + spread / 2)
    means           given the variance N(m, sigma2 / (KAPPA + N)), so t with 2 A + N degrees of freedom
    rates           Gamma(A + S, B + N)

Of the Dirichlet distribution, the estimate (5) is the mean. EM climbs log p(D | theta) + sum alpha log theta, whose
maximum (5) is as well: as a density of the probabilities themselves that is Dirichlet(alpha + 1 + N), as a density of
their log-odds, whose Jacobian is the product of the probabilities, it is Dirichlet(alpha + N) (MacKay 1998). The second
is taken: it is the one whose evidence CS adds up, and with the first a column of a thousand levels would have a
thousand cases more than it has, which may put its own estimate outside its interval. The other posteriors are those
whose joint mode the estimate is.

Where components, labels or values inside a tree are hidden, expected counts are not counts, and the same formulas would
promise too much: it is not known which case is whose. Instead the cases are drawn, not the parameters: a Bayesian
bootstrap (Rubin 1981; of likelihoods: Newton & Raftery 1994). A case of weight w gets a draw from Gamma(w), that is
w cases of exponential weights, and EM goes on from the fitted network. So components keep their names, and only what is
near this maximum is seen. What the rows do not show is left to the prior, which is drawn too (Newton, Polson & Xu
2021), in the last M-step: a gamma variate for alpha, so that a level of no case is not certain to be rare. The draws of
complete discrete data are then those from Dirichlet(alpha + N) above; means, variances and rates are centred where
their posteriors are, and where a cell has no case they are draws from the prior.

Structure is given: the number of components, the arcs of a tree, cuts of binned columns, and constants of priors that
were learnt from the columns, are those of the fit.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fanbayes.learning.data import InMemoryData
from fanbayes.learning.em import Problem, initial_state, run_em
from fanbayes.learning.tree_data import TreeData
from fanbayes.model.network import Network


def draw_parameters(problem: Problem, network: Network, n_draws: int, seed: int, max_iter: int, tol: float) -> Network:
    """As many networks, of the structure of one that was fitted to the same rows.

    Parameters
    ----------
    problem : rows in memory, and the options that the network was fitted with
    network : Network of one, of the problem's model
    max_iter, tol : of the bootstrap's EM

    Returns
    -------
    Network of n_draws
    """
    model = network.model
    if model.structure.n_states == model.structure.n_classes and problem.data.is_labelled:
        complete = problem.data.e_step(network.terms).map(lambda x: np.repeat(x, n_draws, axis=0))
        found = model.draw(complete, np.random.default_rng(seed))
        if found is not None:
            return found
    draws = [bootstrap(problem, network, np.random.default_rng([seed, k]), max_iter, tol) for k in range(n_draws)]
    return draws[0].map(lambda *parts: np.concatenate(parts), *draws[1:])


def bootstrap(problem: Problem, network: Network, rng: np.random.Generator, max_iter: int, tol: float) -> Network:
    """One draw of a Bayesian bootstrap, in the basin of the network given."""
    assert isinstance(problem.data, (InMemoryData, TreeData))
    drawn = replace(problem, data=problem.data.reweighted(rng))
    state = run_em(drawn, initial_state(drawn, network), max_iter - 1, tol)
    if not np.isfinite(state.objective[0]):
        raise FloatingPointError("EM degenerated under drawn weights; look for columns of extreme values")
    return network.model.bootstrap_estimate(state.statistics, rng)
