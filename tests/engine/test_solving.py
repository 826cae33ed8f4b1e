"""`gs.solve`: good input of many shapes, and bad input that gets its own message and spends nothing."""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from testkit.tables import LINEAR, START, TABLE, linear_loss, linear_params, logistic_table

import gossamer as gs
from gossamer.engine import loop
from gossamer.methods import GD, SGD

BUDGET = gs.Budget(1.0, 1e-3)
LOGISTIC = gs.ERM(gs.objectives.logistic)


@pytest.fixture
def nothing_spent(monkeypatch):
    """Fail if the compiled loop is entered at all."""

    def entered(*args, **kwargs):
        raise AssertionError("a query was asked")

    monkeypatch.setattr(loop, "advance", entered)


def solve(problem=LINEAR, data=TABLE, method=None, budget=BUDGET, init=START, **options):
    return gs.solve(problem, data, method or GD(steps=2), budget, init=init, **{"seed": 0, **options})


BAD = {
    "nan in the table": (dict(data=TABLE.at[1, 1].set(jnp.nan)), ValueError, "data has NaN or infinite entries"),
    "inf in a leaf": (
        dict(data={"a": TABLE, "b": np.array([0, 1, np.inf, 2])}),
        ValueError,
        r"data\['b'\] has NaN or infinite entries. Drop or impute",
    ),
    "empty table": (dict(data=np.zeros((0, 2))), ValueError, "n = 0 records"),
    "no arrays": (dict(data=()), ValueError, "data has no arrays"),
    "ragged": (dict(data=(np.zeros((4, 2)), np.zeros(3))), ValueError, "data is ragged.*'data\\[0\\]': 4"),
    "a list": (dict(data=[1.0, 2.0]), ValueError, "is a float, not an array"),
    "text": (dict(data=np.array(["a", "b"])), ValueError, "records must be numbers"),
    "a scalar leaf": (dict(data=np.float32(3)), ValueError, "is a single number"),
    "beyond float32": (dict(data=np.full((4, 2), 1e200)), ValueError, "beyond the range of float32"),
    "beyond int32": (dict(data=np.full((4, 2), 2**40)), ValueError, "integers beyond 32 bits"),
    "batch larger than n": (dict(method=SGD(batch_size=5)), ValueError, "batch_size = 5 exceeds n = 4"),
    "vector loss": (dict(problem=gs.ERM(lambda x, z: x * z)), ValueError, "it must return one float"),
    "integer init": (dict(init=jnp.zeros(2, int)), ValueError, "nothing to train"),
    "nan init": (dict(init=jnp.full(2, jnp.nan)), ValueError, "init has NaN"),
    "integers beside floats": (dict(init=(START, jnp.zeros(2, int))), ValueError, "integer or boolean arrays"),
    "integer leaf": (
        dict(init={"w": START, "b": 0}),
        ValueError,
        r"init\['b'\] = 0 is an integer.* Write 0\.0",
    ),
    "init of another shape": (
        dict(init=jnp.zeros(3)),
        ValueError,
        r"^loss\(params, record\) failed.*\(3,\).* It met init: float32\[3\] and record: float32\[2\]\. Start from",
    ),
    "init of another name": (
        dict(problem=LOGISTIC, data=(TABLE, TABLE[:, 0]), init={"w": START}),
        ValueError,
        r"KeyError: 'weights'.*init\['w'\]: float32\[2\] and record\[0\]: float32\[2\], record\[1\]: float32\[\]",
    ),
    "not a method": (dict(method="GD"), TypeError, "method = 'GD' must be an instance of a class in gs.methods"),
    "a class for a method": (dict(method=GD), TypeError, "method = the class GD must be an instance of a class"),
    "a table for a method": (
        dict(method=(TABLE, TABLE[0])),
        TypeError,
        r"method = \(float32\[4, 2\], float32\[2\]\) must be .* subclass of gs\.methods\.Method of your own",
    ),
    "a table for a budget": (dict(budget=TABLE), TypeError, r"budget = float32\[4, 2\] must be a gs.Budget\(epsilon"),
    "a word for a seed": (
        dict(seed="a"),
        ValueError,
        r"seed = 'a' must be a whole number from 0 to 2\^32 - 1",
    ),
    "a key for a seed": (dict(seed=jax.random.key(0)), ValueError, r"seed = key<fry>\[\] must be a whole number"),
    "a seed that is another": (dict(seed=2**32), ValueError, "seed = 4294967296 must be a whole number"),
    "delta below what can be accounted": (dict(budget=gs.Budget(1.0, 1e-13)), gs.AccountingError, "delta = 1e-13"),
    "microbatch of none": (dict(microbatch=0), ValueError, "microbatch = 0 must be a whole number of at least 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named_and_spends_nothing(name, nothing_spent):
    options, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        solve(**options)


def test_a_problem_of_the_wrong_kind_names_the_methods_that_can(nothing_spent):
    class Game:
        loss = None

    with pytest.raises(TypeError, match="GD cannot solve a problem of type Game"):
        solve(problem=Game())

    class OnlyGames(GD):
        problems = (gs.Minimax,)

    with pytest.raises(TypeError, match=r"OnlyGames cannot solve a problem of type ERM. These can: GD, SGD"):
        solve(method=OnlyGames())


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), "1", True, np.float32(0)])
def test_epsilon_must_be_positive(epsilon):
    with pytest.raises(ValueError, match=r"epsilon = .* must be a number above 0"):
        gs.Budget(epsilon, 1e-5)


@pytest.mark.parametrize("delta", [0, 1, -0.1, float("nan"), 2])
def test_delta_must_be_inside_the_unit_interval(delta):
    with pytest.raises(ValueError, match=r"delta = .* must be strictly between 0 and 1"):
        gs.Budget(1.0, delta)


def test_numbers_of_a_budget_are_pythons_own():
    budgets = [gs.Budget(1, 0.5), gs.Budget(np.int64(1), np.float32(0.5)), gs.Budget(jnp.float32(1), np.array(0.5))]
    assert {repr(budget) for budget in budgets} == {"Budget(epsilon=1.0, delta=0.5, neighbors='replace_one')"}


def test_neighbors_must_be_known():
    with pytest.raises(ValueError, match="'replace_one', 'add_remove'"):
        gs.Budget(1.0, 1e-5, neighbors="swap")


def test_a_delta_of_one_over_n_warns():
    with pytest.warns(gs.WeakGuaranteeWarning, match=r"delta = 0.5 is not below 1/n = 0.25"):
        solve(budget=gs.Budget(1.0, 0.5))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(steps=0), "steps = 0 must be a whole number"),
        (dict(steps=2.5), "steps = 2.5 must be a whole number"),
        (dict(clip=0.0), "clip = 0.0 must be a finite number above 0"),
        (dict(clip=float("inf")), "clip = inf"),
        (dict(steps=True), "steps = True must be a whole number"),
        (dict(clip=np.bool_(True)), "clip = True must be a finite number above 0"),
        (dict(learning_rate=-1.0), "learning_rate = -1.0 must be a finite number above 0, or a function"),
        (dict(learning_rate="fast"), "learning_rate = 'fast' must be a finite number above 0"),
        (dict(learning_rate=TABLE), r"learning_rate = float32\[4, 2\] must be"),
        (dict(output="best"), "output = 'best' must be one of 'last'"),
        (dict(batch_size=0), "batch_size = 0 must be a whole number"),
        (dict(momentum=1.0), "momentum = 1.0 must be a finite number of at least 0 and below 1"),
    ],
)
def test_bad_hyper_parameters_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        SGD(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(loss=3), r"loss = 3 must be a function loss\(params, record\)"),
        (dict(loss=linear_loss, regularizer=0.1), r"regularizer = 0\.1 must be a penalty such as gs\.L2\(strength\)"),
        (dict(loss=linear_loss, regularizer=gs.L2), "regularizer = the class L2 must be a penalty"),
    ],
)
def test_what_is_no_loss_or_no_penalty_is_named(options, message):
    with pytest.raises(TypeError, match=message):
        gs.ERM(**options)


def test_a_step_that_returns_no_report_is_refused():
    class Silent(GD):
        def step(self, problem, ask, state, t):
            return super().step(problem, ask, state, t)[0]

    told = r"Silent\.step\(\.\.\.\) returned \(float32\[2\], \(\)\); .* the pair \(state, Report"
    with pytest.raises(TypeError, match=told):
        solve(method=Silent(steps=1))


def test_a_diverged_run_stops_with_advice():
    problem = gs.ERM(lambda x, z: jnp.sum(x) * 0.0 + jnp.dot(x, z))
    with pytest.raises(gs.DivergedError, match=r"not finite after step \d+ of 50.*smaller learning_rate"):
        solve(problem=problem, method=GD(steps=50, learning_rate=3e38))


@pytest.mark.slow
def test_a_record_that_turns_bad_during_the_run_counts_as_zero():
    """One record's loss is NaN: it contributes nothing, and the others still move the iterate."""
    problem = gs.ERM(lambda x, z: jnp.dot(x, z) * jnp.where(z[0] < 0, jnp.nan, 1.0))
    budget = gs.Budget(np.inf, 1e-3)
    result = gs.solve(problem, TABLE, GD(steps=1, learning_rate=1.0), budget, init=START, seed=0)
    kept = np.asarray(TABLE)[np.asarray(TABLE)[:, 0] >= 0]
    np.testing.assert_allclose(result.params, -kept.sum(0) / 4, atol=1e-6)


@pytest.mark.slow
def test_history_is_public_arrays_of_one_value_per_step():
    result = solve(method=GD(steps=5))
    assert set(result.history) == {"gradient_norm"}
    assert result.history["gradient_norm"].shape == (5,)
    assert np.all(np.isfinite(result.history["gradient_norm"]))


@pytest.mark.slow
def test_entropy_of_the_system_differs_from_run_to_run():
    runs = [gs.solve(LINEAR, TABLE, GD(steps=1), BUDGET, init=START).params for _ in range(2)]
    assert not np.array_equal(runs[0], runs[1])


@pytest.mark.slow
def test_no_noise_and_all_records_is_gradient_descent():
    """Against optax on the mean loss, to 1e-6."""
    X, y = logistic_table()
    ours = gs.solve(
        LOGISTIC,
        (X, y),
        GD(steps=20, learning_rate=0.7, clip=1e3),
        gs.Budget(np.inf, 1e-3),
        init=linear_params(),
        seed=0,
    ).params

    def mean_loss(p):
        return jnp.mean(jax.vmap(lambda r: gs.objectives.logistic(p, r))((X, y)))

    params = linear_params()
    optimiser = optax.sgd(0.7)
    state = optimiser.init(params)
    for _ in range(20):
        updates, state = optimiser.update(jax.grad(mean_loss)(params), state)
        params = optax.apply_updates(params, updates)
    for name in params:
        np.testing.assert_allclose(ours[name], params[name], atol=1e-6)


@pytest.mark.slow
def test_learning_rate_schedules_of_optax():
    method = SGD(steps=6, batch_size=2, learning_rate=optax.cosine_decay_schedule(0.5, 6))
    assert np.all(np.isfinite(solve(method=method).params))


@pytest.mark.slow
def test_equinox_modules_are_trained_in_their_arrays_only():
    model = eqx.nn.MLP(3, 1, 4, 1, key=jax.random.key(0))

    def loss(model, record):
        x, y = record
        return (model(x)[0] - y) ** 2

    X, y = logistic_table(20, 3)
    result = gs.solve(gs.ERM(loss), (X, y), GD(steps=2), BUDGET, init=model, seed=0)
    assert isinstance(result.params, eqx.nn.MLP)
    assert result.params.activation is model.activation
    assert not np.array_equal(result.params.layers[0].weight, model.layers[0].weight)


@pytest.mark.slow
def test_python_floats_in_plain_containers_are_trained():
    result = solve(problem=gs.ERM(lambda p, z: p["b"] * z[0]), init={"b": 0.5})
    assert float(result.params["b"]) != 0.5


def test_constraints_hold():
    result = solve(problem=gs.ERM(linear_loss, constraint=gs.L2Ball(0.1)), method=GD(steps=5))
    assert np.linalg.norm(result.params) <= 0.1 + 1e-6


@pytest.mark.slow
def test_the_random_output_is_one_of_the_iterates():
    drawn = solve(method=GD(steps=5, output="random"), budget=gs.Budget(np.inf, 1e-3)).params
    gradient = np.asarray(TABLE).mean(0)
    path = [-t * gradient for t in range(5)]
    assert min(np.abs(np.asarray(drawn) - x).max() for x in path) < 1e-6


def test_no_warnings_on_a_plain_run():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(progress=True)
