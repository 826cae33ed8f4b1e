"""Shares that a problem needs to be public, bought by one query: of groups, and of positive labels.

`share_stage` buys them in the schedule of the training that needs them. In a run of their own they are offered as
`gs.objectives.group_shares` and `gs.objectives.positive_share`, beside the problems that they are for; they live here
because buying is a run of `gs.solve`.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gossamer.base.trees import PyTree
from gossamer.engine.solving import solve
from gossamer.engine.stages import Posed, Stage
from gossamer.geometry import Simplex
from gossamer.methods.gd import GD
from gossamer.objectives.erm import ERM
from gossamer.oracle.people import People, count
from gossamer.privacy.budget import Budget
from gossamer.privacy.certificate import Certificate

POSITIVES, GROUPS = "share of positives", "shares of groups"
"""What estimators buy: names of stages, and of queries on certificates."""
SHARE_OF_BUDGET = 0.05
"""What shares cost: of the schedule's cost. The training has 2.6 % more noise for it."""


def share_stage(name: str, members: np.ndarray | People, groups: int) -> Stage:
    """Return the stage that buys the share of each group; `shares_of` makes shares of its answer.

    One step of unit length from 0 along Q(e_g − 1/k). Centred, the corners of the simplex are as short as they can be,
    and so is the noise; what of it points along (1, …, 1) is taken out again, since shares add up to 1.

    Args:
      name: what to call it.
      members: the group 0, …, groups − 1 of each record; or, by persons, of each row: shares are then means of own
        shares.
      groups: k, their public number.
    """
    return Stage(name, _once(groups), SHARE_OF_BUDGET, lambda answers: _asked(members, groups))


def _once(groups: int) -> GD:
    return GD(steps=1, learning_rate=1.0, clip=math.sqrt(1 - 1 / groups))


def _asked(members: np.ndarray | People, groups: int) -> Posed:
    if isinstance(members, People) and members.weights != "mean":
        raise ValueError("the shares of persons are means of their own shares: use gs.by_person(..., weights='mean').")
    records = jax.tree.map(lambda leaf: leaf.astype(np.int32), members)
    return Posed(ERM(_centred), records, jnp.zeros(groups), _once(groups))


def shares_of(answer: PyTree, n: int) -> tuple[float, ...]:
    """Return the nearest shares that add up to 1, each at least about that of one record of n."""
    groups = len(answer)
    least = 1 / (n + groups)
    shares = least + Simplex(1 - groups * least).project(1 / groups - least + answer)
    return tuple(np.asarray(shares, np.float64).tolist())


def group_shares(
    members: Any, groups: int, budget: Budget, seed: int | None = None
) -> tuple[tuple[float, ...], Certificate]:
    """Buy the share of each group by one query of its own; return the shares and the certificate of what that cost.

    Its cost adds to that of the training that uses the shares: the two certificates compose, and nothing does that for
    you. (Estimators ask for shares in the schedule of the training, which costs less.) The noisy shares are moved to
    the nearest ones that add up to 1, each at least about that of one record.

    Args:
      members: the group 0, …, groups − 1 of each record; or, by `gs.by_person`, of each row of the persons: the answer
        is then the mean of what share of its own rows each person has in a group.
      groups: k, their public number.
      budget: what this query may spend.
      seed: None takes entropy from the operating system. A number is for tests.
    """
    members = members if isinstance(members, People) else np.asarray(members)
    codes = np.asarray(members.rows) if isinstance(members, People) else members
    if codes.ndim != 1 or not np.isin(codes, range(groups)).all():
        raise ValueError(f"members must be a list of whole numbers from 0 to {groups - 1}, one for each record.")
    asked = _asked(members, groups)
    answer = solve(asked.problem, asked.data, asked.method, budget, init=asked.init, seed=seed, progress=False)
    return shares_of(answer.params, count(members)), answer.certificate


def positive_share(labels: Any, budget: Budget, seed: int | None = None) -> tuple[float, Certificate]:
    """Buy the share of positive labels by one query of its own; return it and the certificate of what that cost.

    Labels are two groups, whose shares `group_shares` buys: its docstring says what adds up. The answer is kept about
    one record away from 0 and 1.

    Args:
      labels: an array of 0 and 1, one for each record; or by `gs.by_person`.
      budget: what this query may spend.
      seed: None takes entropy from the operating system. A number is for tests.
    """
    codes = np.asarray(labels.rows if isinstance(labels, People) else labels)
    if codes.ndim != 1 or not np.isin(codes, (0, 1)).all():
        raise ValueError("labels must be a list of 0 and 1, one for each record.")
    (_, positives), certificate = group_shares(labels, 2, budget, seed)
    return positives, certificate


def _centred(x: jax.Array, group: jax.Array) -> jax.Array:
    return -jnp.dot(x, jax.nn.one_hot(group, x.size) - 1 / x.size)
