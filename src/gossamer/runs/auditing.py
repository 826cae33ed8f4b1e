"""Attacks on what a run did: its problem, its method and its budget, on records that are nobody's.

Thousands of runs like the one that is audited are attacked, not that one: one run of a random algorithm shows nothing.
They are made again from the certificate and the pipeline, on a table that is drawn from the schema alone, with fewer
records where that is faster; samples keep their rates, and so noise keeps its size.
"""

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from gossamer import audit, methods
from gossamer.learn._common import PrivateEstimator, Task
from gossamer.oracle.people import People
from gossamer.privacy import accounting
from gossamer.privacy._jax_privacy import CanaryScoreAuditor, Split
from gossamer.privacy.budget import Budget
from gossamer.privacy.schedule import Schedule
from gossamer.runs.folder import Run
from gossamer.runs.posing import records_of
from gossamer.runs.synthetic import synthetic_table
from gossamer.tables.ids import persons_of
from gossamer.tables.table import Table

if TYPE_CHECKING:
    from gossamer.privacy.certificate import Certificate

_FEW, _MANY = 200, 1000
"""Records of an attacked table: few for a network, which takes more memory for each."""
_SIZES = ("batch_size", "refresh_batch_size", "difference_batch_size")


def attack_canary(run: Run, certificate: "Certificate", runs: int, seed: int = 0) -> audit.EmpiricalEpsilon:
    """Tell runs with one hostile record from runs with its opposite, or without it; return the bound on ε that proves.

    Its row is as long as rows can be, and its opposite has another target, and another group if there are groups: while
    the model is undecided the two gradients point in opposite directions, and both are as long as clipping allows.
    """
    n = min(certificate.n, _FEW if len(getattr(run.model, "layers_", ())) > 1 else _MANY)
    _, task = _posed(run, synthetic_table(run.schema, n, seed), certificate, n, seed)
    arrays = task.data.rows if isinstance(task.data, People) else task.data
    rows, targets, *groups = arrays
    # The code 0 is the lower end of a range, and a first value: there all functions of a column together are longest.
    each = 0.0 if run.recipe.record.additive else 1 / math.sqrt(rows.shape[1])
    longest = np.full(rows.shape[1], each, rows.dtype)
    canary, opposite = ((longest, *(end(column) for column in (targets, *groups))) for end in (np.max, np.min))
    data: Any = task.data
    if isinstance(data, People):  # as many rows as count, all alike
        canary, opposite = (
            tuple(np.repeat(np.asarray(value)[None], data.cap, axis=0) for value in each) for each in (canary, opposite)
        )
        data = data.with_room().replaced(0, canary)
    else:
        for column, value in zip(data, canary, strict=True):
            column[0] = value
    budget = training_budget(certificate)
    return audit.empirical_epsilon(
        task.problem,
        data,
        row=0,
        record=opposite if budget.neighbors == "replace_one" else None,
        method=task.method,
        budget=budget,
        init=task.init,
        runs=runs,
        seed=seed,
    )


def attack_one_run(run: Run, certificate: "Certificate", canaries: int, seed: int = 0) -> audit.OneRun:
    """Rehearse the run once on made-up records, all of them canaries with coins of their own; return what that proves.

    A canary has a row of full length in a random direction, and its opposite has another target: as many canaries as
    there are columns point in directions of their own, and more of them stand in each other's way. Of an additive model
    it has the values of a made-up record.
    """
    _, task = _posed(run, synthetic_table(run.schema, canaries, seed), certificate, canaries, seed)
    if isinstance(task.data, People):
        raise ValueError("a rehearsal with canaries is about rows, and this run protects persons. Leave out `run`.")
    rows, targets, *groups = task.data
    directions = np.random.default_rng(seed).normal(size=rows.shape)
    longest = (directions / np.linalg.norm(directions, axis=1, keepdims=True)).astype(rows.dtype)
    if run.recipe.record.additive:
        longest = rows
    ends = (np.full_like(targets, end(targets)) for end in (np.max, np.min))
    inside, outside = ((longest, end, *groups) for end in ends)
    budget = training_budget(certificate)
    replaced = budget.neighbors == "replace_one"
    return audit.one_run(
        task.problem,
        task.data,
        inside,
        task.method,
        budget,
        init=task.init,
        others=outside if replaced else None,
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
    ids = run.schema.person_of(pool)
    size = pool.n if ids is None else persons_of(ids).number
    n = min(certificate.n, size // 2, _MANY)
    estimator, task = _posed(run, pool, certificate, n, seed)
    chosen = np.random.default_rng(seed).permutation(size)[: 2 * n]
    loss = estimator.record_loss(task)
    return audit.membership_inference(
        task.problem,
        task.data.among(chosen) if isinstance(task.data, People) else tuple(column[chosen] for column in task.data),
        task.method,
        training_budget(certificate),
        task.init,
        loss=loss,
        confidence=lambda params, record: jnp.exp(-loss(params, record)),
        seed=seed,
    )


def training_budget(certificate: "Certificate") -> Budget:
    """Return a budget with which the training alone would have the noise that it has on a certificate."""
    whole = Budget(certificate.epsilon, certificate.delta, certificate.neighbors)
    if not (certificate.purchases and certificate.is_private):
        return whole
    apart = [bought.apart for bought in certificate.purchases if bought.apart is not None]
    if apart:
        left = [whole.epsilon - sum(epsilon for epsilon, _ in apart), whole.delta - sum(delta for _, delta in apart)]
        return dataclasses.replace(whole, epsilon=left[0], delta=left[1])
    bought = {name for each in certificate.purchases for name in each.queries}
    own = Schedule(tuple(query for query in certificate.schedule if query.name not in bought))
    noisy = whole.delta * (1 - accounting.TRUNCATION_SHARE)
    return dataclasses.replace(whole, epsilon=accounting.pld_epsilon(own, noisy, whole.neighbors))


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


def _posed(run: Run, table: Table, certificate: "Certificate", n: int, seed: int) -> tuple[PrivateEstimator, Task]:
    """Return the run's estimator, and what it would have solved on this table by the method for n records."""
    # What was bought was private then, so it may be used again if the model keeps it: the share of positives. Bought
    # shares of groups are not stored: they are all alike here, as they are in a table that is drawn from the schema.
    record = run.recipe.record
    kept = record.buys is not None and f"{record.buys}_" in record.keeps
    bought: dict[str, Any] = {f"{record.buys}": getattr(run.model, f"{record.buys}_")} if kept else {}
    estimator = run.recipe.estimator(
        run.schema, training_budget(certificate), method=_method(certificate, n), random_state=seed, **bought
    )
    return estimator, estimator.pose(*records_of(table, run.schema, run.recipe), person=run.schema.person_of(table))
