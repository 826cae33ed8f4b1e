"""Every method with a small problem that it solves, for what must hold of all of them: resuming, sharding."""

from typing import Any, NamedTuple

import jax.numpy as jnp
from testkit.games import GAME, game_table
from testkit.tables import linear_params, logistic_table

import gossamer as gs
from gossamer import methods

N = 61  # a prime: no number of devices divides it
BUDGET = gs.Budget(4.0, 1e-3)


class Entry(NamedTuple):
    method: methods.Method
    problem: Any
    data: Any
    init: Any

    def solve(self, method=None, budget=BUDGET, **options):
        """Solve the entry's problem."""
        return gs.solve(self.problem, self.data, method or self.method, budget, init=self.init, **options)


def away(params, record):
    """A black box that is not smooth: the distance of a score from its label."""
    x, y = record
    return jnp.abs(x @ params["weights"] + params["intercept"] - y)


ROWS = logistic_table(N)
LOGISTIC = gs.ERM(gs.objectives.logistic)
BALL = gs.ERM(gs.objectives.logistic, constraint=gs.L2Ball(2.0))
PLAYERS = (game_table(N), (jnp.zeros(2), jnp.zeros(())))


def on_rows(method, problem=LOGISTIC):
    return Entry(method, problem, ROWS, linear_params())


def in_a_game(method):
    return Entry(method, GAME, *PLAYERS)


ENTRIES = {
    "GD": on_rows(methods.GD(steps=6)),
    "SGD": on_rows(methods.SGD(steps=6, batch_size=8, momentum=0.5, output="average")),
    "SVRG": on_rows(methods.SVRG(steps=3, inner_steps=2, batch_size=8, barzilai_borwein=True)),
    "SVRGpp": on_rows(methods.SVRGpp(steps=2, inner_steps=2, batch_size=8)),
    "AccMD": on_rows(methods.AccMD(steps=4), BALL),
    "Whitened": on_rows(methods.Whitened(steps=4)),
    "Spider": on_rows(methods.Spider(steps=6, period=3, batch_size=8, output="random")),
    "StoSpider": on_rows(methods.StoSpider(steps=6, period=3, batch_size=8)),
    "AdaSpider": on_rows(methods.AdaSpider(steps=6, batch_size=8)),
    "SGDA": in_a_game(methods.SGDA(steps=6, batch_size=8)),
    "PrivateDiff": in_a_game(methods.PrivateDiff(steps=6, period=3, batch_size=8, inner_steps=2)),
    "RGDA": in_a_game(methods.RGDA(steps=6, period=3, batch_size=8)),
    "RGDA in one pass": in_a_game(
        methods.RGDA(steps=2, period=2, inner_steps=2, batch_size=5, refresh_batch_size=9, single_pass=True)
    ),
    "DoubleSpider": on_rows(methods.DoubleSpider(steps=6, period=3, batch_size=8), gs.DRO(gs.objectives.logistic)),
    "RecursiveSpider": on_rows(
        methods.RecursiveSpider(steps=6, period=3, batch_size=8), gs.DRO(gs.objectives.logistic, gs.KL(), radius=0.5)
    ),
    "O2NC": on_rows(methods.O2NC(steps=3, inner_steps=4), gs.BlackBox(away)),
}
assert {type(entry.method) for entry in ENTRIES.values()} == set(methods.ALL)
