"""FANClassifierCV: an average of FANs and their relatives, weighted by what they predict of rows held out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, softmax
from sklearn.utils.validation import check_is_fitted
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from fanbayes.data.frames import to_user_rows, to_user_table
from fanbayes.data.schema import Schema
from fanbayes.data.table import EncodedTable
from fanbayes.data.views import Treatment, View
from fanbayes.estimators.progress import Report, steps
from fanbayes.estimators.splits import Split, read_groups, split_rows
from fanbayes.estimators.tabular import Cases, TableClassifier
from fanbayes.estimators.validation import require_choice, require_integer, seed_of
from fanbayes.explanation.average import Member, attribute_average
from fanbayes.explanation.contributions import Attribution, Explanation, chosen_pairs, missing_values, told
from fanbayes.explanation.information import information_gain
from fanbayes.learning.completion import Completions, Imputer, blocks, filled, missing_cells, seldom_missing
from fanbayes.learning.ensembles.candidates import Effort, Family, library
from fanbayes.learning.ensembles.stacking import stack
from fanbayes.learning.expectation import Workers, posterior, workers
from fanbayes.learning.feature_weights import FeatureWeights, HeldOut, learn_feature_weights, neutral
from fanbayes.model.network import Network
from fanbayes.model.sampling import draw
from fanbayes.model.weighted_network import WeightedNetwork

Floats = NDArray[np.float64]
Weighting = Literal["none", "common", "each"]
Each = Callable[[Callable[[Any], Any], Sequence[Any]], list[Any]]

# Sizes grow until the score of the rows held out has not risen for so many of them.
PATIENCE = 2
# Members are dropped, least weights first, as long as all that is dropped weighs less.
NEGLIGIBLE = 0.05
_MOST_MEMBERS: dict[Effort, int] = {"fast": 6, "default": 12, "best": 24}
# How many sizes of each family get feature weights, besides one component.
_WITH_FEATURE_WEIGHTS: dict[Effort, int] = {"fast": 1, "default": 2, "best": 100}
# Least number of rows held out for each feature weight of its own.
ROWS_PER_FEATURE_WEIGHT = 5
# Numbers are not taken to be further out than so many standard deviations of their column.
FURTHEST = 1e3
# Groups of folds, each of which is scored by feature weights learnt from the others.
_GROUPS = 3
# Points that stand for a row held out, where a value is filled in: every candidate is judged by all of them.
N_POINTS_HELD_OUT = 16
_LONE_THREAD = Workers()


@dataclass(frozen=True)
class _Seen:
    """Rows as they are encoded by each of several schemas, columns not mixed; first by `schema_`."""

    schemas: tuple[Schema, ...]
    tables: tuple[EncodedTable, ...]

    @property
    def base(self) -> EncodedTable:
        """The rows, columns as they are."""
        return self.tables[0]

    def only(self, rows: NDArray[np.intp]) -> _Seen:
        """Some of the rows."""
        return replace(self, tables=tuple(t.only(rows) for t in self.tables))


@dataclass(frozen=True)
class _Fold:
    """Rows to learn from and rows held out, both seen by what the first ones tell.

    Attributes
    ----------
    view : View
    training : what is learnt from, as the view shows it
    held_out : rows to judge by, their columns not mixed
    done : their completions; None where nothing is filled in
    judged : rows held out as they are judged, completed, as the view shows them
    """

    view: View
    training: EncodedTable
    held_out: EncodedTable
    done: Completions | None
    judged: EncodedTable

    @property
    def n_cases(self) -> Floats:
        """Weights of the rows held out (n_held_out,)."""
        return self.held_out.case_weights


@dataclass(frozen=True)
class _Candidate:
    """One size of a family, fitted in every fold, perhaps with feature weights.

    Attributes
    ----------
    folds, predictors : of each fold, the network that has not seen the rows held out
    weighting : which feature weights
    feature_weights : FeatureWeights
    log_scores : (n_held_out,), log p(y | x) of the rows held out, fold after fold
    n_cases : (n_held_out,), their weights
    """

    family: Family
    size: int
    folds: tuple[_Fold, ...]
    predictors: tuple[Network, ...]
    weighting: Weighting
    feature_weights: FeatureWeights
    log_scores: Floats
    n_cases: Floats

    @property
    def log_score(self) -> float:
        """Mean log score of the rows held out; NaN if there are none."""
        return float(self.n_cases @ self.log_scores / self.n_cases.sum()) if len(self.n_cases) else float("nan")

    @property
    def is_generative(self) -> bool:
        """Whether it is a joint distribution of class and columns."""
        return self.weighting == "none" and not self.family.fine_tuned and self.family.treatment != "decorrelate"

    @property
    def parts(self) -> list[HeldOut]:
        """What feature weights are learnt from: the rows held out as they are, values missing."""
        return [
            HeldOut(f.view.mix(f.held_out).fused(), p, f.view.feature_of) for f, p in zip(self.folds, self.predictors)
        ]


class FANClassifierCV(TableClassifier):
    """Average of naive Bayes and FAN models, with weights of members and features learnt by cross-validation.

    ``p(c | x) = sum_m v_m p_m(c | x)``, where each member is naive Bayes or a FAN of some size, as EM finds it or
    fine-tuned to tell the classes apart, on continuous columns as they are, binned or decorrelated, and

    ``p_m(c | x) ∝ exp(b_c) p(c) sum_h p(h | c) prod_i p(x_i | c, h)^{w_i}``.

    Feature weights w_i and offsets b_c maximise the likelihood of the classes of rows that were held out, and so do
    the weights v_m. Members are then fitted to all rows.

    Such members are not joint distributions, so a missing value cannot just be left out of the product. Where a column
    is missing in fewer than one of twenty training cases, p(c | x) is the mean over the values that it may have, given
    the others, under a FAN that was chosen for it (`imputer_`; `fanbayes.learning.completion`): exactly if all that is
    missing has few combinations of values, else over 64 points. In columns that are missing more often it is left out,
    in training as in prediction, and everywhere if all members are joint distributions, for which that is exact. A row
    in which everything is missing gets `class_prior_`.

    Parameters
    ----------
    effort : {"fast", "default", "best"}, default="default"
        How many candidates and starts are tried, and how many members may remain.
    cv : int, splitter or iterable of (train, test) indices, default=5
        How rows are held out. An integer is a number of stratified folds; with fewer than two labelled rows a fold
        there is nothing to judge by, and the only member is naive Bayes.
    categorical_features : "from_dtype", "all", None, or array-like of names, indices or bool
        Which columns are discrete. By default those of strings, booleans and categories.
    handle_unknown : {"missing", "error"}, default="missing"
        A category that was not seen in training counts as missing, or is an error.
    allow_missing_columns : bool, default=False
        Whether a data frame to predict may lack columns, which are then summed out.
    n_jobs : int or None, default=None
        Threads; the result does not depend on it.
    random_state : int, RandomState or None, default=None
    verbose : bool, default=False
        Show a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
    members_ : table
        The members: their model, size, treatment of continuous columns, their feature weights, the mean log
        score of the rows held out, and their weight.
    weights_ : ndarray of shape (n_members,)
    class_prior_ : ndarray of shape (n_classes,)
    n_components_ : int
        Number of components of the largest member.
    schema_ : Schema
        What each column was taken for.
    networks_, predictors_ : lists of Network
        The members as EM found them, and with the parameters that they predict by, which differ if fine-tuned.
    views_ : list of View
        How each member sees the columns.
    imputer_ : Imputer
        What fills in missing values, and in which columns.
    feature_weights_ : ndarray of shape (n_members, n_features_in_)
    offsets_ : ndarray of shape (n_members, n_classes)
    log_score_ : float
        Mean log probability of the class of the rows held out, under the average.
    n_features_in_, feature_names_in_

    Notes
    -----
    Feature weights are for prediction: `sample` draws from the generative models behind it, without them.

    Examples
    --------
    >>> from fanbayes import FANClassifierCV
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = FANClassifierCV(effort="fast", random_state=0).fit(X, y)
    >>> clf.predict_proba(X).shape
    (150, 3)
    """

    def __init__(
        self,
        *,
        effort: Effort = "default",
        cv: Any = 5,
        categorical_features: Any = "from_dtype",
        handle_unknown: Literal["missing", "error"] = "missing",
        allow_missing_columns: bool = False,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: bool | int = False,
    ) -> None:
        self.effort = effort
        self.cv = cv
        self.categorical_features = categorical_features
        self.handle_unknown = handle_unknown
        self.allow_missing_columns = allow_missing_columns
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------ fitting

    def _check_parameters(self) -> None:
        super()._check_parameters()
        require_choice("effort", self.effort, ("fast", "default", "best"))
        if isinstance(self.cv, (int, np.integer)):
            require_integer("cv", self.cv, 2)
        elif isinstance(self.cv, str) or not (
            self.cv is None or hasattr(self.cv, "split") or hasattr(self.cv, "__iter__")
        ):
            raise ValueError(f"cv={self.cv!r} is neither a number, nor a splitter, nor a list of splits")

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Learn from rows and their classes.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
            Discrete and continuous columns, values missing or not.
        y : array-like of shape (n_samples,)
            Classes. A row whose label is NaN or None is unlabelled and is learnt from as well.
        sample_weight : array-like of shape (n_samples,), optional
            Case counts: weight 2 is the row twice, weight 0 is the row absent.
        groups : array-like of shape (n_samples,), optional
            Rows of a group, such as those of one patient, are held out together. Without groups, rows that are equal
            in all columns are, if some of these are continuous; equal rows of discrete columns are taken for
            different cases and are dealt out over the folds.

        Returns
        -------
        self
        """
        return self._fit_whole(X, y, sample_weight, groups)

    def _fit(self, *given: Any) -> Self:
        X, y, sample_weight, groups = given
        cases = self._cases(X, y, sample_weight)
        view, table = cases.view("none")
        cases.warn_of_traps(view.schema)
        seed = seed_of(self.random_state)
        splits = split_rows(self.cv, cases, table, seed, read_groups(groups, cases))
        families = library(self.effort, bool(view.schema.continuous))
        if not splits:  # nothing can be held out, so nothing can be compared
            families = families[:1]
        fills = seldom_missing(table)
        with _threads(self._n_threads()) as each, steps(bool(self.verbose)) as report:
            candidates, imputer = self._candidates(cases, splits, families, fills, seed, each, report)
            members, self.weights_ = _best(candidates, _MOST_MEMBERS[self.effort])
            views, fits = _refit(cases, view.schema, [*members, imputer], seed, each, report)
        self.classes_ = cases.classes
        self.schema_ = view.schema
        if all(m.is_generative for m in members):  # to leave out what is missing is exact then
            fills = np.zeros_like(fills)
        self.imputer_ = Imputer(fits.pop()[0], view.schema, fills)
        self.views_ = views[:-1]
        self.networks_, self.predictors_ = (list(networks) for networks in zip(*fits))
        self.feature_weights_: Floats = np.array([m.feature_weights.weights for m in members])
        self.offsets_: Floats = np.array([m.feature_weights.offset for m in members])
        self.members_ = _table_of(members, self.weights_, view.schema.frame)
        self.log_score_ = _log_score(members, self.weights_)
        return self

    def _candidates(
        self,
        cases: Cases,
        splits: list[Split],
        families: list[Family],
        fills: NDArray[np.bool_],
        seed: int,
        each: Each,
        report: Report,
    ) -> tuple[list[_Candidate], _Candidate]:
        """Every size of every family as it is and the best of each with feature weights; and what fills in holes.

        The latter is the size of the first family, which is generative, that the rows held out are most probable under.
        """
        first = families[0]
        incomplete = each(lambda s: _fold(cases, first.treatment, s), splits)
        plain = list(_grow(first, incomplete, cases, seed, each, report))
        imputer = max(plain, key=_log_density)
        done = each(
            lambda f: Imputer(f[1], f[0].view.schema, fills).completions(
                f[0].held_out, _LONE_THREAD, N_POINTS_HELD_OUT
            ),
            list(zip(incomplete, imputer.predictors)),
        )
        folds: dict[Treatment, list[_Fold]] = {first.treatment: list(map(_completed, incomplete, done))}
        plain = [_judged(c, folds[first.treatment]) for c in plain]
        found: list[_Candidate] = []
        for family in families:
            if family.treatment not in folds:
                seen = each(lambda s: _fold(cases, family.treatment, s), splits)  # noqa: B023
                folds[family.treatment] = list(map(_completed, seen, done))
            if family is not first:
                plain = list(_grow(family, folds[family.treatment], cases, seed, each, report))
            found += plain
            if splits:
                best = sorted(plain[1:], key=lambda c: -c.log_score)[: _WITH_FEATURE_WEIGHTS[self.effort]]
                for weighted in each(_with_feature_weights, [plain[0], *best]):
                    found += weighted
                report(f"{_name(family)}, feature weights", 1 + len(best))
        return found, imputer

    # ------------------------------------------------------------ prediction

    def predict_proba(self, X: Any) -> Floats:
        """p(c | x); where a missing value is filled in (`imputer_`), the mean over what it may be (M1).

        Such a row costs as much as up to 64 others.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), in the order of `classes_`
        """
        check_is_fitted(self)
        total = self._average(self._see(X), "proba")
        return np.asarray(total / total.sum(axis=1, keepdims=True))

    def predict_log_proba(self, X: Any) -> Floats:
        """Log p(c | x), as `predict_proba`, without underflow."""
        check_is_fitted(self)
        total = self._average(self._see(X), "log_proba")
        return np.asarray(total - logsumexp(total, axis=1, keepdims=True))

    def _average(self, seen: _Seen, what: Literal["proba", "log_proba"]) -> Floats:
        """(A1) of the rows, (n_rows, n_classes), but for a factor of each row."""
        missing = missing_cells(seen.base)
        is_empty, is_filled = missing.all(axis=1), (missing & self.imputer_.fills).any(axis=1)
        out = np.empty((len(missing), len(self.classes_)))
        prior = np.maximum(self.class_prior_, np.finfo(np.float64).tiny)
        out[is_empty] = prior if what == "proba" else np.log(prior)
        with workers(self._n_threads()) as crew:
            whole = np.flatnonzero(~is_empty & ~is_filled)
            if len(whole):
                out[whole] = self._mixed(self._members(seen.only(whole)), what, crew)
            for some in blocks(np.flatnonzero(~is_empty & is_filled), missing.shape[1]):
                done = self.imputer_.complete(seen.base.only(some), crew)
                p = self._mixed(self._members(seen.only(some), done), what, crew)
                out[some] = done.mean(p) if what == "proba" else done.log_mean(p)
        return out

    def _mixed(self, members: list[Member], what: Literal["proba", "log_proba"], crew: Workers) -> Floats:
        """(A1) of complete rows."""
        if what == "proba":
            return np.asarray(sum(m.weight * posterior(m.table, m.model, what, crew) for m in members))
        log_p = [posterior(m.table, m.model, what, crew) + np.log(m.weight) for m in members]
        return np.asarray(logsumexp(np.stack(log_p), axis=0))

    def _see(self, X: Any) -> _Seen:
        """Rows as they are encoded for the members."""
        schemas = tuple({id(s): s for s in (self.schema_, *(v.schema for v in self.views_))}.values())
        tables = self._encode(X, *(View(s, None) for s in schemas))
        return _Seen(schemas, tuple(replace(t, numbers=np.clip(t.numbers, -FURTHEST, FURTHEST)) for t in tables))

    def _members(self, seen: _Seen, done: Completions | None = None) -> list[Member]:
        """Members, each with the rows, or their completions, as it sees them."""
        encoded = {
            id(schema): table if done is None else filled(table, schema, done)
            for schema, table in zip(seen.schemas, seen.tables)
        }
        tables = {id(view): view.mix(encoded[id(view.schema)]) for view in {id(v): v for v in self.views_}.values()}
        members = zip(self.views_, self.predictors_, self.feature_weights_, self.offsets_, self.weights_.tolist())
        return [
            Member(WeightedNetwork(predictor, w[view.feature_of], b), tables[id(view)], view.feature_of, weight)
            for view, predictor, w, b, weight in members
        ]

    # ------------------------------------------------------------ looking inside

    @property
    def n_components_(self) -> int:
        """Number of components of the largest member."""
        check_is_fitted(self)
        return max(int(network.structure.n_components) for network in self.networks_)

    @property
    def class_prior_(self) -> Floats:
        """Class marginal of the average (n_classes,)."""
        check_is_fitted(self)
        return np.asarray(self.weights_ @ [network.class_marginal() for network in self.networks_])

    def explain(self, X: Any, *, classes: Sequence[Any] | None = None) -> Explanation:
        """Why each row is of one class rather than another: the log-odds as a sum over features.

        As `FANClassifier.explain`, for the average (`fanbayes.explanation.average`). "component" is the number of the
        member that adds most to the probability of the class, and "responsibility" its share. The information of a
        missing feature is the weighted mean of what it is under the members. Where a missing value is filled in
        (`imputer_`), its contribution is that of the values which the others lead to expect; elsewhere it is 0. Such a
        row takes as long as up to 64 others.

        Parameters
        ----------
        X : data frame or array-like of shape (n_samples, n_features)
        classes : two labels, optional
            The class, and the one to compare it with; by default the predicted class and the runner-up of each row.

        Returns
        -------
        Explanation
            Arrays, and tables by `table()`, `summary()` and `worth_observing()`.
        """
        check_is_fitted(self)
        seen = self._see(X)
        chosen = chosen_pairs(self._average(seen, "log_proba"), self.classes_, classes)
        parts = []
        for some in blocks(np.arange(len(chosen)), self.n_features_in_):
            done = self.imputer_.complete(seen.base.only(some), Workers())
            members = self._members(seen.only(some), done)
            parts.append(attribute_average(members, self.n_features_in_, chosen[some], done.row, done.weight))
        found = Attribution(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Attribution)))
        found = self._without_evidence(found, missing_cells(seen.base), chosen)
        missing = missing_values(self.schema_, seen.base)
        gain = np.zeros(missing.shape)
        for member, view, network in zip(self._members(seen), self.views_, self.networks_):
            states = softmax(posterior(member.table, member.model, "states", Workers()), axis=1)
            gain += member.weight * information_gain(network, view.schema, states, missing)
        return told(found, self.schema_, seen.base, self.classes_[chosen], gain)

    def _without_evidence(self, found: Attribution, missing: NDArray[np.bool_], pairs: NDArray[Any]) -> Attribution:
        """The log-odds of rows in which everything is missing are those of `class_prior_`."""
        is_empty = np.all(missing, axis=1)
        prior = np.log(self.class_prior_)[pairs] @ [1.0, -1.0]
        return replace(
            found,
            log_odds=np.where(is_empty, prior, found.log_odds),
            prior=np.where(is_empty, prior, found.prior),
            contributions=np.where(is_empty[:, None], 0.0, found.contributions),
        )

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[Any, NDArray[Any]]:
        """Draw rows and their classes from the members, without feature weights, each as often as it weighs.

        Parameters
        ----------
        n_samples : int
        random_state : int, RandomState or None

        Returns
        -------
        X : like the rows it was fitted on
        y : ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        require_integer("n_samples", n_samples, 1)
        rng = np.random.default_rng(seed_of(random_state))
        counts = rng.multinomial(n_samples, self.weights_ / self.weights_.sum())
        drawn = [
            draw(network, view.schema, n, rng, view.mixing)
            for network, view, n in zip(self.networks_, self.views_, counts.tolist())
            if n
        ]
        order = rng.permutation(n_samples)
        columns = [np.concatenate(parts)[order] for parts in zip(*(columns for columns, _ in drawn))]
        labels = np.concatenate([classes for _, classes in drawn])[order]
        return to_user_rows(columns, self.schema_), self.classes_[labels]


# ---------------------------------------------------------------- folds and candidates


@contextmanager
def _threads(n: int) -> Iterator[Each]:
    """A `map` that uses n threads; each task runs on one, so the result does not depend on their number.

    So does linear algebra: its vectors are short, and threads of its own would only get in the way.
    """
    with threadpool_limits(1), ThreadPoolExecutor(max(1, n - 1), thread_name_prefix="fanbayes") as pool:
        yield partial(_map, pool, n)


def _map(pool: ThreadPoolExecutor, n: int, function: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """Results of the items; the calling thread is one of the n, those that cannot be had are done without."""
    results: list[Any] = [None] * len(items)
    places = iter(range(len(items)))  # shared: every thread takes the next

    def work() -> None:
        for k in places:
            results[k] = function(items[k])

    others: list[Future[None]] = []
    with suppress(RuntimeError):  # no more threads can be started
        others.extend(pool.submit(work) for _ in range(min(n, len(items)) - 1))
    work()
    for other in others:
        other.result()
    return results


def _fold(cases: Cases, treatment: Treatment, split: Split) -> _Fold:
    train, test = split
    view, table = cases.view(treatment, np.where(train > 0, cases.labels, np.int32(-1)))
    training, held_out = (_cases_of(table, weights) for weights in (train, test))
    return _Fold(view, view.mix(training).fused(), held_out, None, view.mix(held_out).fused())


def _cases_of(table: EncodedTable, weights: Floats) -> EncodedTable:
    """Rows of positive weight."""
    keep = weights > 0
    return replace(table.only(keep), weights=None if (weights[keep] == 1).all() else weights[keep])


def _completed(fold: _Fold, done: Completions | None) -> _Fold:
    """The fold, judged by the completions of the rows held out."""
    if done is None:
        return fold
    return replace(fold, done=done, judged=fold.view.mix(filled(fold.held_out, fold.view.schema, done)).fused())


def _grow(
    family: Family, folds: list[_Fold], cases: Cases, seed: int, each: Each, report: Report
) -> Iterator[_Candidate]:
    """One size after the other, until `PATIENCE` of them have not been better on the rows held out."""
    n_classes = len(cases.classes)
    best, since = -np.inf, 0
    for size in family.sizes:
        fits = each(lambda f: family.fit(size, f.training, n_classes, seed, _LONE_THREAD), folds)  # noqa: B023
        plain = neutral(len(cases.sources), n_classes)
        found = _Candidate(family, size, (), tuple(p for _, p in fits), "none", plain, np.empty(0), np.empty(0))
        found = _judged(found, folds)
        report(f"{_name(family)}, {size}", len(folds))
        yield found
        since = 0 if found.log_score > best else since + 1
        best = max(best, found.log_score)
        if since == PATIENCE or not folds:
            return


def _judged(c: _Candidate, folds: Sequence[_Fold]) -> _Candidate:
    """A candidate with its scores in the folds."""
    c = replace(c, folds=tuple(folds), n_cases=np.concatenate([np.empty(0), *(f.n_cases for f in folds)]))
    return replace(c, log_scores=_log_scores(c, [c.feature_weights] * len(folds)))


def _with_feature_weights(c: _Candidate) -> list[_Candidate]:
    """The candidate with one weight for all features, and with one for each.

    They are learnt from all rows held out, but scored as they would have been without the rows that they are scored
    by: feature weights that fit too well must not look better than they are. The networks of the other folds have seen
    these rows, though, and so a little of them remains; with few rows for each feature it would be too much.
    """
    n_features = len(c.feature_weights.weights)
    parts = c.parts
    groups = [parts[k::_GROUPS] for k in range(min(_GROUPS, len(parts)))]
    if len(groups) == 1:
        return []
    each = c.n_cases.sum() >= ROWS_PER_FEATURE_WEIGHT * n_features
    of_part: list[list[FeatureWeights]] = [[]] * len(parts)
    for k in range(len(groups)):
        others = [part for j, group in enumerate(groups) if j != k for part in group]
        of_part[k::_GROUPS] = [learn_feature_weights(others, n_features, _LONE_THREAD, each)] * len(groups[k])
    final = learn_feature_weights(parts, n_features, _LONE_THREAD, each)
    names: tuple[Weighting, ...] = ("common", "each")
    return [
        replace(c, weighting=name, feature_weights=of_all, log_scores=_log_scores(c, [e[i] for e in of_part]))
        for i, (name, of_all) in enumerate(zip(names, final))
    ]


def _log_scores(c: _Candidate, feature_weights: Sequence[FeatureWeights]) -> Floats:
    """Log p(y | x) of the rows held out, with feature weights for each fold."""
    scores = [np.empty(0)]
    for fold, predictor, e in zip(c.folds, c.predictors, feature_weights):
        part = HeldOut(fold.judged, predictor, fold.view.feature_of)
        log_proba = posterior(part.table, part.weighted(e), "log_proba", _LONE_THREAD)
        log_proba = log_proba if fold.done is None else fold.done.log_mean(log_proba)
        scores.append(log_proba[np.arange(len(log_proba)), fold.held_out.labels])
    return np.concatenate(scores)


def _log_density(c: _Candidate) -> float:
    """Sum of log p(x) of the rows held out, of as many values as they have."""
    total = 0.0
    for fold, network in zip(c.folds, c.predictors):
        joint = posterior(fold.held_out, network, "log_joint", _LONE_THREAD)
        total += float(fold.n_cases @ logsumexp(joint, axis=1))
    return total


def _best(candidates: list[_Candidate], most: int) -> tuple[list[_Candidate], Floats]:
    """Candidates that matter and their weights, the weightiest first."""
    if len(candidates) == 1:
        return candidates, np.ones(1)
    n_cases = candidates[0].n_cases
    scores = np.stack([c.log_scores for c in candidates], axis=1)
    weights = stack(scores, n_cases)
    order = np.argsort(-weights, kind="stable")
    enough = 1 + int(np.searchsorted(np.cumsum(weights[order]), 1 - NEGLIGIBLE))
    keep = order[: min(enough, most)]
    weights = stack(scores[:, keep], n_cases)
    by_weight = np.argsort(-weights, kind="stable")
    return [candidates[k] for k in keep[by_weight]], weights[by_weight]


def _refit(
    cases: Cases, schema: Schema, members: list[_Candidate], seed: int, each: Each, report: Report
) -> tuple[list[View], list[tuple[Network, Network]]]:
    """Members on all rows: what each sees, its network and what predicts."""
    views, tables = {}, {}
    for treatment in {m.family.treatment for m in members}:
        view, table = cases.view(treatment)
        # Nothing but bins makes the schemas of views differ: rows are encoded once for those that have none.
        views[treatment] = view if treatment == "mdlp" else replace(view, schema=schema)
        tables[treatment] = view.mix(table).fused()
    n_classes = len(cases.classes)
    which = list(
        dict.fromkeys((id(m.family), m.size) for m in members)
    )  # members may differ in their feature weights alone
    family_of = {id(m.family): m.family for m in members}

    def one(key: tuple[int, int]) -> tuple[Network, Network]:
        family, size = family_of[key[0]], key[1]
        return family.fit(size, tables[family.treatment], n_classes, seed, _LONE_THREAD)

    fits = dict(zip(which, each(one, which)))
    report("members", len(members))
    return [views[m.family.treatment] for m in members], [fits[id(m.family), m.size] for m in members]


def _name(family: Family) -> str:
    tuned = ", fine-tuned" if family.fine_tuned else ""
    return f"FAN{' per class' if family.mixing == 'per_class' else ''} ({family.treatment}{tuned})"


def _table_of(members: list[_Candidate], weights: Floats, frame: str | None) -> Any:
    columns = {
        "n_components": [m.size for m in members],
        "mixing": [m.family.mixing for m in members],
        "variance": [m.family.variance for m in members],
        "treatment": [m.family.treatment for m in members],
        "fine_tuned": [m.family.fine_tuned for m in members],
        "feature_weights": [m.weighting for m in members],
        "log_score": [m.log_score for m in members],
        "weight": weights.tolist(),
    }
    return to_user_table(columns, frame)


def _log_score(members: list[_Candidate], weights: Floats) -> float:
    """Mean log score of the average, of the rows held out; NaN if there are none."""
    n_cases = members[0].n_cases
    scores = np.stack([m.log_scores for m in members], axis=1)
    return float(n_cases @ logsumexp(scores + np.log(weights), axis=1) / n_cases.sum()) if len(n_cases) else np.nan
