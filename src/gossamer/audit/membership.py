"""Membership inference: guess from a model who was in the table that it was trained on.

Models are trained on random halves of a pool (`gossamer.audit.game`). Half of them are the attacker's shadow models,
whose members are known; the others are attacked, record by record. The attacks say how sure they are:

* "loss": minus the record's loss (Yeom et al., 2018).
* "confidence": the model's probability of the record's label.
* "score": any statistic of yours.
* "lira": the likelihood ratio of one of these, under normal laws fitted for each record to the shadow models with it
  and without it (Carlini et al., 2022, online): of "score" if it is given, else of log(p/(1−p)) for the confidence p,
  else of "loss".

Given the shadow models, the attacked ones are independent of each other, and each score is a fixed function of the
model and the record. So no attack, whatever it learned from the shadow models, exceeds the limits of
`gossamer.audit.roc` in expectation.
"""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np

from gossamer.audit.game import draw_members, plan_game, play
from gossamer.audit.roc import Limits, Performance, certified_limits, performance, scheduled_limits
from gossamer.base.entropy import new_key
from gossamer.base.trees import PyTree
from gossamer.engine.solving import split_params
from gossamer.methods.base import Method
from gossamer.objectives.problem import Problem
from gossamer.oracle.clipping import Backend
from gossamer.oracle.door import Oracle
from gossamer.oracle.people import People
from gossamer.oracle.records import check_records
from gossamer.privacy.budget import Budget

Statistic = Callable[[PyTree, PyTree], jax.Array]
_SURE = 1e-6
"""Confidences are kept this far from 0 and 1."""


@dataclass(frozen=True)
class MembershipInference:
    """What attacks achieved, and what no attack can; true when no attack's AUC is above its limit beyond chance.

    Beyond chance: the lower end of its 95 % interval is above. To an attack that is as good as the limit allows that
    happens in one case of forty.
    """

    attacks: dict[str, Performance]
    certified: Limits
    """What (ε, δ) implies."""
    scheduled: Limits
    """What the schedule implies, by its whole curve δ(ε): tighter."""
    budget: Budget
    models: int
    """How many were attacked."""
    records: int
    """How many are in the pool."""

    def __bool__(self) -> bool:
        return all(attack.auc.low <= self.scheduled.auc for attack in self.attacks.values())

    def __str__(self) -> str:
        game = {"replace_one": "a random half", "add_remove": "each by a fair coin"}[self.budget.neighbors]
        rows = [(name, str(attack.auc), str(attack.tpr)) for name, attack in self.attacks.items()]
        rows += [
            (name, f"{limits.auc:.4f}", f"{limits.tpr:.4f}")
            for name, limits in (("limit by (ε, δ)", self.certified), ("limit by the schedule", self.scheduled))
        ]
        return "\n".join(
            [
                f"{self.models} models attacked; members: {game} of {self.records} records; ({self.budget.epsilon:g}, "
                f"{self.budget.delta:g})-DP, neighbors = {self.budget.neighbors}; intervals of 95 %",
                f"{'':22}{'AUC':26}TPR at 0.1 % FPR",
                *(f"{name:22}{auc:26}{tpr}" for name, auc, tpr in rows),
            ]
        )


def membership_inference(
    problem: Problem,
    data: PyTree,
    method: Method,
    budget: Budget,
    init: PyTree,
    *,
    models: int = 64,
    loss: Statistic | None = None,
    confidence: Statistic | None = None,
    score: Statistic | None = None,
    seed: int = 0,
    backend: Backend = "auto",
    oracle: type[Oracle] = Oracle,
) -> MembershipInference:
    """Attack a configuration: train models on random halves of a pool, and guess each record's membership.

    Nothing here is private: attack records that are public, or keep what comes out.

    Args:
      problem: as for `gs.solve`, like `method`, `init` and `backend`.
      data: the pool of records; of an odd number the last is left out. Models are trained on half of it, so that rates
        and noise are those of that number.
      method: what is attacked.
      budget: what it claims. Its neighbors decide how members are drawn; see `gossamer.audit.game`.
      init: where the runs start.
      models: how many are trained, a multiple of 4 of at least 16: one half to learn from, one half to attack.
      loss: `loss(params, record)`; default: the problem's own.
      confidence: `confidence(params, record)` → the model's probability of the record's label, in [0, 1].
      score: `score(params, record)`, larger for members: an attack of your own.
      seed: of the members and the runs.
      backend: as for `gs.solve`.
      oracle: the oracle to attack; tests put deliberately unsound ones here.

    Example:
      >>> import gossamer as gs, jax.numpy as jnp
      >>> X, y = jnp.eye(20), jnp.arange(20) % 2
      >>> report = gs.audit.membership_inference(
      ...     gs.ERM(gs.objectives.logistic), (X, y), gs.methods.GD(steps=5), gs.Budget(1.0, 1e-3),
      ...     init={"weights": jnp.zeros(20), "intercept": jnp.zeros(())}, models=16,
      ... )
      >>> bool(report)
      True
    """
    if not (isinstance(models, int) and models >= 16 and models % 4 == 0):
        raise ValueError(
            f"models = {models!r} must be a multiple of 4 of at least 16: half are shadow models, in pairs."
        )
    if isinstance(data, People):
        loss, confidence, score = (None if each is None else data.lifted(each) for each in (loss, confidence, score))
        problem, data = problem.by_person(data), data.gathered()
    data, size = check_records(data)
    if size < 4:
        raise ValueError(f"data has {size} records; a game of members and non-members needs at least 4.")
    records = size - size % 2
    data = jax.tree.map(lambda leaf: leaf[:records], data)
    statistics: dict[str, Statistic] = {"loss": _minus(loss or problem.record_loss)}
    statistics |= {name: s for name, s in (("confidence", confidence), ("score", score)) if s is not None}
    params, trained, rebuild = split_params(problem, init)
    for name, statistic in statistics.items():
        _check_statistic(name, statistic, rebuild, params, data)
    planned = plan_game(method.sized(params), records, budget)
    members_key, runs_key = jax.random.split(new_key(seed))
    members = draw_members(members_key, models, records, budget)
    outputs = play(planned, trained, data, members, init=params, key=runs_key, backend=backend, oracle=oracle)
    values = {name: _evaluate(name, statistic, rebuild, outputs, data) for name, statistic in statistics.items()}
    shadows, attacked = slice(0, models // 2), slice(models // 2, models)
    scores = {name: value[attacked] for name, value in values.items()}
    fitted = values.get("score", _logit(values["confidence"]) if confidence else values["loss"])
    scores["lira"] = _likelihood_ratio(fitted[shadows], members[shadows], fitted[attacked])
    return MembershipInference(
        attacks={name: performance(each, members[attacked], seed) for name, each in scores.items()},
        certified=certified_limits(budget),
        scheduled=scheduled_limits(planned),
        budget=budget,
        models=models // 2,
        records=records,
    )


def _minus(loss: Statistic) -> Statistic:
    return lambda params, record: -loss(params, record)


def _check_statistic(name: str, statistic: Statistic, rebuild: Callable, params: PyTree, data: PyTree) -> None:
    """Refuse a statistic that is not one number, before models are trained for it."""
    first = jax.tree.map(lambda leaf: leaf[0], data)
    shape = jax.eval_shape(lambda params: statistic(rebuild(params), first), params).shape
    if shape != ():
        raise ValueError(f"{name}(params, record) must return one number; it has shape {shape}.")


def _evaluate(name: str, statistic: Statistic, rebuild: Callable, outputs: PyTree, data: PyTree) -> np.ndarray:
    """Return a statistic of every model and record, of shape (models, records)."""

    def of_model(params: PyTree) -> jax.Array:
        whole = rebuild(params)
        return jax.lax.map(lambda record: statistic(whole, record), data, batch_size=4096)

    values = np.asarray(jax.jit(lambda outputs: jax.lax.map(of_model, outputs))(outputs), np.float64)
    wrong = int(np.sum(~np.isfinite(values).all(axis=1)))
    if wrong:
        raise ValueError(
            f"{name}(params, record) is not finite for some records in {wrong} of {len(values)} models. If they "
            "diverged, use a smaller learning_rate."
        )
    return values


def _logit(confidence: np.ndarray) -> np.ndarray:
    """Return log(p/(1−p)), which is nearer to normal than p."""
    sure = np.clip(confidence, _SURE, 1 - _SURE)
    return np.log(sure) - np.log1p(-sure)


def _likelihood_ratio(values: np.ndarray, members: np.ndarray, attacked: np.ndarray) -> np.ndarray:
    """Return log N(s; μ_in, v) − log N(s; μ_out, v) for each attacked model and record.

    Means and variances are those of the shadow models' values with the record and without it. What few models tell of
    one record is noisy, so that v is drawn half-way to its mean over all records, and the difference of the means to
    theirs, by the share of its variance over records that the noise of two means of half the models explains.
    """
    inside, outside = (np.where(who, values, np.nan) for who in (members, ~members))
    mean_in, mean_out = np.nanmean(inside, axis=0), np.nanmean(outside, axis=0)
    variance = 0.5 * (np.nanvar(inside, axis=0, ddof=1) + np.nanvar(outside, axis=0, ddof=1))
    # A positive floor, for values that do not vary at all.
    variance = 0.5 * (variance + np.mean(variance)) + np.finfo(np.float32).eps * np.mean(np.square(values)) + 1e-300
    difference, noise = mean_in - mean_out, 4 * variance / len(values)
    spread = max(0.0, float(np.var(difference) - np.mean(noise)))
    common = np.mean(difference)
    difference = common + spread / (spread + noise) * (difference - common)
    return difference * (attacked - 0.5 * (mean_in + mean_out)) / variance
