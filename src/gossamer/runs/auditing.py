"""Attacks on what a run did: its problem, its method and its budget, on records that are nobody's.

Thousands of runs like the one that is audited are attacked, not that one: one run of a random algorithm shows nothing.
They are made again from the certificate and the pipeline, on a table that is drawn from the schema alone, with fewer
records where that is faster; samples keep their rates, and so noise keeps its size.
"""

import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from gossamer import audit, methods
from gossamer._jax_privacy import CanaryScoreAuditor, Split
from gossamer.learn._buying import training_budget
from gossamer.learn._common import Task
from gossamer.models import CrossEntropy
from gossamer.runs.folder import Run
from gossamer.runs.synthetic import synthetic_table
from gossamer.tables.table import Table

if TYPE_CHECKING:
    from gossamer.certificate import Certificate

_FEW, _MANY = 200, 1000
"""Records of an attacked table: few for a network, which takes more memory for each."""
_SIZES = ("batch_size", "refresh_batch_size", "difference_batch_size")


def attack_canary(run: Run, certificate: "Certificate", runs: int, seed: int = 0) -> audit.EmpiricalEpsilon:
    """Tell runs with one hostile record from runs with its opposite, or without it; return the bound on ε that proves.

    Its row is as long as rows can be, and its opposite has another label, and another group if there are groups: while
    the model is undecided the two gradients point in opposite directions, and both are as long as clipping allows.
    """
    n = min(certificate.n, _FEW if run.recipe.hidden else _MANY)
    task = _posed(run, synthetic_table(run.schema, n, seed), _method(certificate, n), certificate, seed)
    rows, labels, *groups = task.data
    longest = np.full(rows.shape[1], 1 / math.sqrt(rows.shape[1]), rows.dtype)
    canary, opposite = ((longest, *(end(column) for column in (labels, *groups))) for end in (np.max, np.min))
    for column, value in zip(task.data, canary, strict=True):
        column[0] = value
    budget = training_budget(certificate)
    return audit.empirical_epsilon(
        task.problem,
        task.data,
        0,
        opposite if budget.neighbors == "replace_one" else None,
        task.method,
        budget,
        init=task.init,
        runs=runs,
        seed=seed,
    )


def most_provable(found: audit.EmpiricalEpsilon) -> float:
    """Return the bound on ε that as many runs prove when all of them are told apart: no attack on them proves more."""
    auditor = CanaryScoreAuditor(np.ones(found.runs), np.zeros(found.runs))
    return float(
        auditor.epsilon_clopper_pearson(
            1 - found.confidence, found.delta, one_sided=False, threshold_strategy=Split(seed=0)
        )
    )


def attack_members(
    run: Run, certificate: "Certificate", table: Table | None, seed: int = 0
) -> audit.MembershipInference:
    """Guess who was in models that are trained on random halves of a table, or of one that is drawn from the schema.

    What comes out about a given table is NOT PRIVATE.
    """
    pool = synthetic_table(run.schema, 2 * min(certificate.n, _FEW), seed) if table is None else table
    n = min(certificate.n, pool.n // 2, _MANY)
    task = _posed(run, pool, _method(certificate, n), certificate, seed)
    chosen = np.random.default_rng(seed).permutation(pool.n)[: 2 * n]
    loss = _loss(run.recipe.objective, task)
    return audit.membership_inference(
        task.problem,
        tuple(column[chosen] for column in task.data),
        task.method,
        training_budget(certificate),
        task.init,
        loss=loss,
        confidence=lambda params, record: jnp.exp(-loss(params, record)),
        seed=seed,
    )


def _method(certificate: "Certificate", n: int) -> methods.Method:
    """Return the method that a certificate is about, for n records: samples keep their rates."""
    if certificate.method not in (kind.__name__ for kind in methods.ALL):
        raise ValueError(f"the certificate's method = {certificate.method!r:.80} is not one that can be run again.")
    settings = dict(certificate.configuration)
    for name in _SIZES:
        if settings.get(name) is not None:
            settings[name] = max(1, round(settings[name] * n / certificate.n))
    try:
        return getattr(methods, certificate.method)(**settings)
    except TypeError as error:
        raise ValueError(f"the certificate's configuration does not fit its method: {error}.") from None


def _posed(run: Run, table: Table, method: methods.Method, certificate: "Certificate", seed: int) -> Task:
    """Return what the run's estimator would have solved on this table."""
    # The share of positives was private when it was bought, so it may be used again. Bought shares of groups are not
    # stored: they are all alike here, as they are in a table that is drawn from the schema.
    bought = {"positive_share": run.model.positive_share_} if run.recipe.objective == "auc" else {}
    estimator = run.recipe.estimator(
        run.schema, training_budget(certificate), method=method, random_state=seed, **bought
    )
    groups = (run.schema.group_of(table),) if run.recipe.grouped else ()
    return estimator.pose(run.schema.encode(table), run.schema.class_codes(table), *groups)


def _loss(objective: str, task: Task) -> Any:
    """Return the loss of a record under trained parameters, for which exp(−loss) is the probability of its label."""
    if objective == "logistic":
        return task.problem.loss
    entropy = CrossEntropy()
    layers = {
        "auc": lambda params: params[0]["model"],
        "dro": lambda params: params,
        "worst-group": lambda params: params[0],
    }[objective]
    return lambda params, record: entropy(layers(params), record[:2])
