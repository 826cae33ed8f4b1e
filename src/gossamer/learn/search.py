"""A search for good settings inside the promise: the best of a secret number of private trials.

*Privacy.* A trial draws a setting from a public list by public chances, trains with samples and noise of its own, and
asks for its own score by one more query of the same schedule. How many trials there are is drawn from a public law and
kept secret, and only the trial with the best noisy score is released. `gossamer.privacy.selection` has the theorem and
`gossamer.privacy.searching` what it costs. It asks for the following, and each has a test with a twin that breaks it:

* *The number of trials stays secret.* Nothing is shown or written per trial: no progress, no warning, no file. All keys
  are drawn at the start, as many as there could be trials. Running times are outside the model, as in every run.
* *Trials are independent and alike.* No trial sees another's setting, score or parameters, and no setting is left out
  because it was drawn before.
* *Nothing is tried again.* A trial that diverges, or whose score is not a number, is an outcome with the lowest score.
* *A search that was killed goes on as the same search.* The key of everything is saved before the first query, and a
  resumed search makes the same trials with the same noise, from the first one on: files say nothing about how far it
  was.
"""

import dataclasses
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gossamer.base.entropy import new_key
from gossamer.base.leak import Leak
from gossamer.base.messages import is_number, shown
from gossamer.engine.checkpoints import digest, digest_records
from gossamer.engine.paying import pay
from gossamer.engine.stages import plan_stages
from gossamer.learn import _trials
from gossamer.learn._common import PrivateEstimator, Task
from gossamer.learn._trials import ACCURACY, LOSS, Candidate, Planned, Trial
from gossamer.oracle.people import by_person, count, scope
from gossamer.privacy.budget import Budget
from gossamer.privacy.certificate import Certificate, certify
from gossamer.privacy.planning import Plan
from gossamer.privacy.searching import plan_search, trial_budget
from gossamer.privacy.trials import negative_binomial

_RULE_CHANCE = 0.5
_MAKES = ("epsilon", "delta", "neighbors", "random_state", "progress", "checkpoints", "ledger")
"""What a trial's estimator is given by the search, so that a grid must not have it."""


class PrivateSearch(MetaEstimatorMixin, BaseEstimator):
    """The best of several settings of an estimator, found and trained within one privacy budget.

    Half of the trials take the estimator as it is, which is the rule for its settings; the others take a setting of the
    grid. A narrow grid of settings that may all be good is worth its price; a wide one is not (docs/tuning.md).

    Args:
      estimator: one of `gs.learn`; its own ε, δ, seed and checkpoints are not used, and it has no ledger.
      grid: lists of values by the names of parameters, all combinations of which are settings; or a list of settings.
      epsilon: ε of the whole search.
      delta: δ of the whole search; None takes n ** -1.1.
      trials: how many trials to expect. How many are made is drawn, and secret.
      score: "loss": the mean squared distance from 1 of the probability that is given to a record's own class (Brier's
        score), or of a regression the mean loss, cut at a public bound; "accuracy": how often a record's own target is
        found to be more probable than not. It is measured on the training records, with noise.
      eta: the shape of the law of the number of trials.
      most: the largest number of trials.
      chances: the chance of each setting, the estimator as it is first; None: a half for that, the rest evenly.
      neighbors: "replace_one" or "add_remove".
      random_state: None takes entropy from the operating system. A number makes everything reproducible, also how many
        trials there are: for tests.
      checkpoints: `gs.Checkpoints(folder)` keeps the key of the search, so that a search that was killed can be made
        again without paying again.
      ledger: `gs.BudgetFile(path)` pays for the search before its first query, by ε and δ: from what was set aside in
        the file for what is known by these alone.

    Attributes:
      best_params_: the setting of the best trial; {} is the estimator as it is.
      best_estimator_: the fitted estimator of that trial.
      score_: its noisy score, larger is better.
      certificate_: the certificate of the whole search.
      settings_: all settings that could be drawn.

    Example:
      >>> from sklearn.datasets import make_classification
      >>> from gossamer.learn import PrivateLogisticRegression
      >>> X, y = make_classification(2000, random_state=0)
      >>> model = PrivateLogisticRegression(data_norm=10.0, classes=[0, 1])
      >>> search = PrivateSearch(model, {"l2": [0.01, 0.1]}, epsilon=1.0, trials=2).fit(X, y)
      >>> search.certificate_.epsilon
      1.0
    """

    def __init__(
        self,
        estimator,
        grid,
        epsilon=1.0,
        delta=None,
        trials=12,
        score="loss",
        *,
        eta=2.0,
        most=100,
        chances=None,
        neighbors="replace_one",
        random_state=None,
        checkpoints=None,
        ledger=None,
    ):
        self.estimator = estimator
        self.grid = grid
        self.epsilon = epsilon
        self.delta = delta
        self.trials = trials
        self.score = score
        self.eta = eta
        self.most = most
        self.chances = chances
        self.neighbors = neighbors
        self.random_state = random_state
        self.checkpoints = checkpoints
        self.ledger = ledger

    def fit(self, X: Any, y: Any, **records: Any) -> "PrivateSearch":
        """Search on rows X with targets y, spending the budget once; `records` is what the estimator's fit takes."""
        return self.spend(self.rehearse(X, y, **records))

    def rehearse(self, X: Any, y: Any, **records: Any) -> Planned:
        """Return what will be asked; refuse what does not go together, before anything is spent."""
        if not isinstance(self.estimator, PrivateEstimator):
            raise TypeError(
                f"estimator = {shown(self.estimator)} must be an estimator of gs.learn: trials are to be private. "
                "Put a pipeline around the search, not into it."
            )
        if self.estimator.ledger is not None:
            raise ValueError("estimator has a ledger, which would not pay. Pass it as PrivateSearch(..., ledger=...).")
        n = len(y) if records.get("person") is None else count(by_person(np.asarray(y), records["person"]))
        budget = Budget(self.epsilon, n**-1.1 if self.delta is None else self.delta, self.neighbors)
        return self.plan(budget, lambda setting, about: self._candidate(setting, about, X, y, records))

    def plan(
        self, budget: Budget, candidate: Callable[[dict[str, Any], Budget], Candidate], table: str | None = None
    ) -> Planned:
        """Return what a search within a budget will ask.

        Args:
          budget: of the whole.
          candidate: `candidate(setting, about)` → what a trial with a setting solves, with about this budget.
          table: what the table is known by to a search that is continued; None: the arrays of the tasks.
        """
        if self.score not in (LOSS, ACCURACY):
            raise ValueError(f"score = {shown(self.score)} must be 'loss' or 'accuracy'.")
        settings = [{}, *_settings(self.grid)]
        chances = _chances(self.chances, len(settings))
        law = negative_binomial(self.trials, self.eta, self.most)
        if not budget.is_private:
            raise ValueError(f"epsilon = {self.epsilon} is no budget for a search: use scikit-learn's GridSearchCV.")
        about = trial_budget(budget, law)
        candidates = []
        for place, setting in enumerate(settings):
            with warnings.catch_warnings():
                if place:  # what is warned of is the same for all settings
                    warnings.simplefilter("ignore")
                candidates.append(candidate(setting, about))
        n = count(candidates[0].task.data)

        def plans_at(each: Budget) -> list[Plan]:
            return [plan_stages(candidate.stages(self.score), n, each) for candidate in candidates]

        selection, plans = plan_search(plans_at, budget, n, trials=self.trials, eta=self.eta, most=self.most)
        return Planned(candidates, plans, chances, law, selection, budget=budget, n=n, table=table)

    def spend(self, planned: Planned) -> "PrivateSearch":
        """Make the trials of a plan, and keep the best one."""
        key = self._key(planned)
        data = planned.candidates[0].task.data
        noted = data if self.random_state is None else None
        pay(self.ledger, planned.budget, type(self).__name__, self.checkpoints, scope(data), records=noted)
        best = _trials.best_of(planned, self.score, key)
        self.settings_ = [candidate.setting for candidate in planned.candidates]
        chosen = planned.candidates[best.place]
        self.best_params_, self.best_estimator_ = chosen.setting, chosen.estimator
        self.score_ = best.score
        self.certificate_ = self._certificate(planned, best)
        chosen.estimator.certificate_ = self.certificate_
        chosen.estimator.history_ = best.outcome.result.history
        chosen.task_of(best.outcome.answers)  # an estimator notes what was bought: by this trial, not by a later one
        chosen.estimator._take(best.outcome.answers, planned.n)
        return self

    def _candidate(self, setting: dict[str, Any], about: Budget, X: Any, y: Any, records: dict[str, Any]) -> Candidate:
        made = {"epsilon": about.epsilon, "delta": about.delta, "neighbors": about.neighbors}
        for name in _MAKES:
            if name in setting:
                raise ValueError(f"grid has {name!r}, which the search sets itself. Leave it out.")
        estimator = clone(self.estimator).set_params(
            **setting, **made, random_state=None, progress=False, checkpoints=None, ledger=None
        )
        if getattr(estimator, "intervals", False):
            raise ValueError(
                "intervals = True does not go with a search: intervals of a model that was chosen for its score would "
                "not cover. Search without them."
            )
        seen: dict[str, Any] = {}

        def keep(task: Task, leaks: tuple[Leak, ...] = ()) -> PrivateEstimator:
            seen.update(task=task, leaks=leaks)
            return estimator

        estimator.spend = keep  # `fit` checks and encodes, and what it would then spend on is kept for a trial
        estimator.fit(X, y, **records)
        del estimator.spend
        return Candidate(setting, estimator, seen["task"], seen["leaks"])

    def _key(self, planned: Planned) -> jax.Array:
        """Return the key of everything; a search that is continued has the one that it was begun with."""
        key = new_key(None if self.random_state is None else int(self.random_state))
        if self.checkpoints is None:
            return key
        tasks = [candidate.task for candidate in planned.candidates]
        if planned.table is None and any(task.complete is not None for task in tasks):
            raise ValueError(
                "checkpoints do not go with a search that buys bounds, categories or shares first. Declare them, or "
                "search without checkpoints."
            )
        # A certificate names problem, method, noise and versions in words that are the same in another process.
        what = digest(
            repr((planned.budget, self.trials, self.eta, self.most, self.score, planned.chances)),
            *(certify(p, t.problem, None, False).to_json() for p, t in zip(planned.plans, tasks, strict=True)),
            *([planned.table] if planned.table is not None else [digest_records(task.data) for task in tasks]),
        )
        words = self.checkpoints.remember("search", what, lambda: np.asarray(jax.random.key_data(key)).tolist())
        return jax.random.wrap_key_data(jnp.asarray(words, jnp.uint32), impl=jax.random.key_impl(key))

    def _certificate(self, planned: Planned, best: Trial) -> Certificate:
        return dataclasses.replace(
            best.outcome.result.certificate,
            epsilon=float(planned.budget.epsilon),
            delta=float(planned.budget.delta),
            selection=planned.selection,
            truncation_delta=planned.selection.truncation(planned.n, planned.budget.epsilon),
            reproducible=self.random_state is not None,
            leaks=planned.candidates[0].leaks,
        )

    @property
    def classes_(self) -> Any:
        """The labels of a classifier."""
        check_is_fitted(self)
        return self.best_estimator_.classes_

    def predict(self, X: Any) -> Any:
        """Return what the best estimator predicts."""
        check_is_fitted(self)
        return self.best_estimator_.predict(X)

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Return the probability of each class."""
        check_is_fitted(self)
        return self.best_estimator_.predict_proba(X)

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))
    def decision_function(self, X: Any) -> Any:
        """Return the scores of rows."""
        check_is_fitted(self)
        return self.best_estimator_.decision_function(X)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "best_estimator_")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.target_tags = inner.estimator_type, inner.target_tags
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.non_deterministic = self.random_state is None
        return tags


def _settings(grid: Any) -> list[dict[str, Any]]:
    if isinstance(grid, Mapping):
        lists = {name: list(values) for name, values in grid.items()}
        settings = [dict(zip(lists, values, strict=True)) for values in itertools.product(*lists.values())]
        settings = settings if lists else []
    elif isinstance(grid, Sequence) and all(isinstance(setting, Mapping) for setting in grid):
        settings = [dict(setting) for setting in grid]
    else:
        raise TypeError(
            f"grid = {shown(grid)} must be a dictionary of lists, such as {{'l2': [0.0, 0.01]}}, or a list of "
            "dictionaries, one for each setting."
        )
    if not 1 <= len(settings) <= 99:
        raise ValueError(f"grid has {len(settings)} settings; it must have 1 to 99. Few good ones are best.")
    return settings


def _chances(given: Any, settings: int) -> list[float]:
    if given is None:
        return [_RULE_CHANCE, *((1 - _RULE_CHANCE) / (settings - 1) for _ in range(settings - 1))]
    chances = [float(chance) for chance in given if is_number(chance)]
    if len(chances) != settings or not all(chance >= 0 for chance in chances) or abs(math.fsum(chances) - 1) > 1e-9:
        raise ValueError(
            f"chances = {shown(given)} must be {settings} numbers that add up to 1: first that of the estimator as it "
            "is, then one for each setting of the grid."
        )
    return chances
