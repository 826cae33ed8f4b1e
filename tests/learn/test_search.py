"""PrivateSearch: what it releases, and that nothing tells how many trials there were. Each trap has its twin."""

import contextlib
import dataclasses
import io
import math
import warnings
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import gossamer as gs
from gossamer.base.entropy import new_key
from gossamer.base.exceptions import DivergedError
from gossamer.engine.bounds import BOUNDS
from gossamer.engine.deciding import THRESHOLD
from gossamer.engine.shares import POSITIVES
from gossamer.engine.stages import Outcome
from gossamer.learn import PrivateAUCClassifier, PrivateLogisticRegression, PrivateSearch
from gossamer.learn import _trials as module
from gossamer.learn._trials import Judged, Planned
from gossamer.privacy import accounting
from gossamer.privacy.certificate import certify
from gossamer.privacy.searching import delta_of
from gossamer.privacy.trials import Trials, fixed, negative_binomial

N = 90


@pytest.fixture(scope="module")
def table():
    draw = np.random.default_rng(0)
    X = draw.normal(size=(N, 3))
    return X, (X[:, 0] + 0.3 * draw.normal(size=N) > 0).astype(int)


def make(grid=None, kind=PrivateSearch, **options):
    model = PrivateLogisticRegression(data_norm=3.0, classes=[0, 1], method=gs.methods.GD(steps=2, clip=1.0))
    grid = {"l2": [0.1]} if grid is None else grid
    return kind(model, grid, **{"epsilon": 2.0, "delta": 1e-3, "trials": 2, "most": 6, **options})


# What is released


@pytest.mark.slow
def test_a_search_has_the_shape_of_an_estimator_and_one_certificate(table):
    X, y = table
    search = make(random_state=3)
    assert is_classifier(search)
    fitted = clone(search).fit(X, y)
    assert fitted.best_params_ in ({}, {"l2": 0.1})
    assert fitted.settings_ == [{}, {"l2": 0.1}]
    assert fitted.predict(X).shape == (N,)
    np.testing.assert_allclose(fitted.predict_proba(X).sum(1), 1.0)
    assert fitted.classes_.tolist() == [0, 1]

    certificate = fitted.certificate_
    assert (certificate.epsilon, certificate.delta) == (2.0, 1e-3)
    assert certificate is fitted.best_estimator_.certificate_
    assert certificate.selection.trials == 2
    assert certificate.schedule["score"].count == 1
    assert gs.Certificate.from_json(certificate.to_json()) == certificate
    checked = certificate.verify()
    assert checked.ok
    assert 0.97 * 2.0 < checked.epsilon <= 2.0 * 1.01
    assert any("How many were made is secret" in sentence for sentence in certificate.assumptions)
    assert not any("all hyper-parameters" in sentence for sentence in certificate.assumptions)  # that would be false

    again = make_pipeline(FunctionTransformer(lambda X: X / 2), search).fit(X, y)
    assert again.predict(X).shape == (N,)
    assert again[-1].certificate_.epsilon == 2.0

    told = dataclasses.replace(certificate, epsilon=1.0)
    assert not told.verify().ok
    fewer = dataclasses.replace(certificate.selection, trials=1.5)
    assert dataclasses.replace(certificate, selection=fewer, epsilon=1.5).verify().wrong
    quieter = certificate.schedule.with_noise(tuple(0.5 * q.noise_multiplier for q in certificate.schedule))
    assert "not among those" in dataclasses.replace(certificate, schedule=quieter).verify().wrong[0]
    assert dataclasses.replace(certificate, selection=None).verify().epsilon < 2.0

    assert gs.compose([certificate, certificate], 2e-3) == pytest.approx(4.0)


def test_the_plan_keeps_the_budget_by_the_accountant_that_decides(table):
    X, y = table
    planned = make({"method": [gs.methods.GD(steps=3), gs.methods.GD(steps=5, clip=0.3)]}).rehearse(X, y)
    assert len(planned.selection.schedules) == 3
    found = delta_of(planned.selection, 2.0, "replace_one", N)
    assert 0.9e-3 < found <= 1e-3
    assert planned.plans[0].budget.epsilon < 2.0


@pytest.mark.deep
def test_samples_that_are_cut_are_charged_for_every_expected_trial(table):
    X, y = table
    sampled = {"method": [gs.methods.SGD(steps=3, batch_size=30)]}
    planned = make(sampled, trials=4, most=40).rehearse(X, y)
    worst = max(
        accounting.truncation(schedule, N, sizes, 2.0)
        for schedule, sizes in zip(planned.selection.schedules, planned.selection.capacities, strict=True)
    )
    assert planned.selection.truncation(N, 2.0) == pytest.approx(4 * worst)
    assert worst > 0


# Nothing tells how many trials there were


def told(search, table, monkeypatch, count, folder):
    """Return all that can be seen of a search with so many trials, but for the values of what is released."""
    X, y = table
    monkeypatch.setattr(Trials, "draw", lambda self, uniform: count)
    search.set_params(checkpoints=gs.Checkpoints(folder))
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        search.fit(X, y)
    return {
        "printed": out.getvalue(),
        "warnings": [str(each.message) for each in seen],
        "files": sorted(path.name for path in folder.rglob("*")),
        "sizes": [round(path.stat().st_size, -2) for path in sorted(folder.rglob("*"))],
        "attributes": {name: np.shape(value) for name, value in vars(search).items() if name != "score_"},
        "of the best": {name: np.shape(value) for name, value in vars(search.best_estimator_).items()},
        "steps": len(search.best_estimator_.history_["gradient_norm"]),
        "certificate": len(search.certificate_.to_json()),
    }


class ShowsProgress(PrivateSearch):
    """The twin with a progress bar."""


class WarnsPerTrial(PrivateSearch):
    """The twin that lets trials warn."""


class KeepsFiles(PrivateSearch):
    """The twin with a file for each trial."""


class KeepsScores(PrivateSearch):
    """The twin with `cv_results_`: scores of losers are released."""

    def fit(self, X, y):
        scores = []
        real = module._trial

        def kept(*arguments):
            made = real(*arguments)
            scores.append(made.score)
            return made

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_trial", kept)
            super().fit(X, y)
        self.cv_results_ = scores
        return self


def _per_trial(action):
    """Return a fit that does something in every trial, outside the reach of the search's silence."""

    def fit(self, X, y):
        real, count = module._trial, []

        def noisy(*arguments):
            count.append(action(self, len(count)))
            return real(*arguments)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "_trial", noisy)
            PrivateSearch.fit(self, X, y)
        if self.__class__ is WarnsPerTrial:
            for _ in count:
                warnings.warn("a trial was made", stacklevel=1)
        return self

    return fit


ShowsProgress.fit = _per_trial(lambda self, k: print(f"trial {k}"))
WarnsPerTrial.fit = _per_trial(lambda self, k: None)
KeepsFiles.fit = _per_trial(lambda self, k: (self.checkpoints.folder / f"trial-{k}").write_text("done"))


@pytest.mark.slow(each=True)
@pytest.mark.parametrize(
    ("kind", "by"),
    [
        (PrivateSearch, None),
        (ShowsProgress, "printed"),
        (WarnsPerTrial, "warnings"),
        (KeepsFiles, "files"),
        (KeepsScores, "attributes"),
    ],
)
def test_nothing_tells_the_number_of_trials(kind, by, table, monkeypatch, tmp_path):
    one, five = (told(make(kind=kind, grid=[{}]), table, monkeypatch, count, tmp_path / str(count)) for count in (1, 5))
    different = [name for name in one if one[name] != five[name] and name != "certificate"]
    assert different == ([] if by is None else different)
    assert by is None or by in different


@pytest.mark.slow
def test_a_search_that_is_made_again_is_the_same_search(table, tmp_path, monkeypatch):
    X, y = table
    first = make(checkpoints=gs.Checkpoints(tmp_path / "kept")).fit(X, y)
    with pytest.raises(ValueError, match="resume=True"):
        make(checkpoints=gs.Checkpoints(tmp_path / "kept")).fit(X, y)
    resume = gs.Checkpoints(tmp_path / "kept", resume=True)
    again = make(checkpoints=resume).fit(X, y)
    assert (again.score_, again.best_params_) == (first.score_, first.best_params_)
    np.testing.assert_array_equal(again.best_estimator_.coef_, first.best_estimator_.coef_)
    with pytest.raises(ValueError, match="another search"):
        make(checkpoints=resume).fit(X + 1e-3, y)
    with pytest.raises(ValueError, match="another search"):
        make(checkpoints=resume, trials=3).fit(X, y)
    with pytest.raises(ValueError, match="another search"):
        make(checkpoints=resume).set_params(estimator__l2=0.3).fit(X, y)

    class DrawsAgain(PrivateSearch):
        """The twin: fresh randomness on resume."""

        def _key(self, planned):
            return new_key(None)

    assert make(kind=DrawsAgain, checkpoints=resume).fit(X, y).score_ != first.score_


# Trials that buy something first


def alone(model, delta):
    """Return a search all of whose trials take the model as it is: they share one estimator."""
    options = {"epsilon": 2.0, "delta": delta, "trials": 2, "most": 6, "random_state": 1}
    return PrivateSearch(model, [{}], chances=[1.0, 0.0], **options)


def two_trials(search, X, y, monkeypatch):
    """Return what was answered in each of two trials; the first one is made the best."""
    answers, real = [], module._trial

    def ranked(*arguments):
        made = real(*arguments)
        answers.append(made.outcome.answers)
        return made._replace(score=-float(len(answers)))

    monkeypatch.setattr(module, "_trial", ranked)
    monkeypatch.setattr(Trials, "draw", lambda self, uniform: 2)
    search.fit(X, y)
    return answers


@pytest.mark.slow
def test_what_a_loser_bought_is_not_kept(table, monkeypatch):
    """Trials of one setting buy noisy shares of positives, made up here; the model is stored with that of its own."""
    bought = iter([0.1, -0.2])

    def solve(stages, n, budget, *, key, progress):
        answers = {POSITIVES: jnp.array([-1.0, 1.0]) * next(bought), "score": {"score": 0.0}}
        trained = stages[1].pose(answers)
        answers["training"] = trained.init
        certificate = certify(gs.plan(trained.method, n, budget), trained.problem, None, False)
        return Outcome(SimpleNamespace(certificate=certificate, history={}, params=trained.init), answers)

    monkeypatch.setattr(module, "solve_stages", solve)
    method = gs.methods.SGDA(steps=1, batch_size=N)
    search = alone(PrivateAUCClassifier(data_norm=3.0, classes=[0, 1], method=method, threshold="balanced"), delta=1e-3)
    two_trials(search, *table, monkeypatch)
    assert search.best_estimator_.positive_share_ == pytest.approx(0.6)


@pytest.mark.deep
def test_the_bounds_that_a_released_model_bought_are_those_of_its_own_trial(monkeypatch):
    """A released model encodes rows as in its training, by bounds which noise makes others in other trials."""
    pandas = pytest.importorskip("pandas")
    draw = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": draw.normal(50, 15, 3000), "weight": draw.normal(70, 12, 3000)})
    labels = (frame["age"] > 50).to_numpy().astype(int)
    model = PrivateLogisticRegression(classes=[0, 1], method=gs.methods.GD(steps=2, clip=1.0))
    search = alone(model, delta=1e-4)
    answers = two_trials(search, frame, labels, monkeypatch)
    candidate, found = search.rehearse(frame, labels).candidates[0], []
    for each in answers:
        candidate.task_of(each)
        found.append(candidate.estimator.encoder_.columns_.columns)
    assert search.best_estimator_.encoder_.columns_.columns == found[0] != found[1]
    certificate = search.certificate_
    assert [each.name for each in certificate.purchases] == [BOUNDS, THRESHOLD, "score"]
    assert all(
        {BOUNDS, THRESHOLD, "score"} < {query.name for query in each} for each in certificate.selection.schedules
    )
    assert certificate.verify()
    assert not dataclasses.replace(certificate, epsilon=1.9).verify()


# Mechanics, with trials that cost nothing


def pretend(monkeypatch, scores, law, chances=(1.0,)):
    """Return a plan whose trials have these scores, one after the other; None diverges. And what was made."""
    made = []

    def solve(stages, n, budget, *, key, progress):
        made.append((stages, np.asarray(jax.random.key_data(key)).tobytes()))
        score = scores[(len(made) - 1) % len(scores)]
        if score is None:
            raise DivergedError("the iterate was not finite")
        return SimpleNamespace(answers={"score": {"score": score}}, result=len(made))

    monkeypatch.setattr(module, "solve_stages", solve)
    candidates = [SimpleNamespace(stages=lambda score, place=place: place) for place in range(len(chances))]
    plans = [SimpleNamespace(budget=None)] * len(chances)
    return Planned(candidates, plans, list(chances), law, None, None, N), made


def test_a_trial_that_diverges_is_an_outcome_and_not_tried_again(monkeypatch):
    planned, made = pretend(monkeypatch, [None, 1.0, None, 0.5], fixed(4))
    best = module.best_of(planned, "loss", new_key(0))
    assert (best.score, len(made)) == (1.0, 4)

    real = module._trial

    def again(*arguments):  # the twin: retry until it is finite
        while (outcome := real(*arguments)) is None:
            pass
        return outcome

    monkeypatch.setattr(module, "_trial", again)
    made.clear()
    module.best_of(planned, "loss", new_key(0))
    assert len(made) > 4


def test_an_error_of_a_trial_that_bought_nothing_useful_is_an_outcome(monkeypatch):
    """Let through, it would tell of a trial that loses: that one of them failed, and that none came after it."""
    planned, made = pretend(monkeypatch, [0.5], fixed(4))
    real = module.solve_stages

    def fails(*arguments, **options):
        found = real(*arguments, **options)
        if len(made) == 2:
            raise ValueError("1 of the classes were frequent enough to be discovered")
        return found

    monkeypatch.setattr(module, "solve_stages", fails)
    assert module.best_of(planned, "loss", new_key(0)).score == 0.5
    assert len(made) == 4


def test_a_search_of_which_the_best_diverged_says_so_and_not_how_often(monkeypatch):
    messages = []
    for count in (1, 5):
        planned, _ = pretend(monkeypatch, [None], fixed(count))
        with pytest.raises(DivergedError, match="privacy is spent") as caught:
            module.best_of(planned, "loss", new_key(0))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_scores_that_are_no_numbers_lose(monkeypatch):
    planned, _ = pretend(monkeypatch, [math.nan, -5.0, math.nan, math.inf], fixed(4))
    assert module.best_of(planned, "loss", new_key(0)).score == -5.0
    assert max([math.nan, -5.0]) != -5.0  # the twin: what comparing without care gives


def test_ties_are_broken_by_coins(monkeypatch):
    """Of 40 searches with two equal scores, both are chosen: fewer than 5 times has a chance of 1e-7."""
    first = 0
    for seed in range(40):
        planned, _ = pretend(monkeypatch, [0.25], fixed(2))
        first += module.best_of(planned, "loss", new_key(seed)).outcome.result == 1
    assert 5 <= first <= 35


def drawn(monkeypatch, scores, search=None):
    """Return how many trials were made, and of which settings, in each of 60 searches."""
    law, out = negative_binomial(3, 2, 8), []
    for seed in range(60):
        planned, made = pretend(monkeypatch, scores, law, chances=(0.5, 0.25, 0.25))
        (search or module.best_of)(planned, "loss", new_key(seed))
        out.append([place for place, _ in made])
    return out


def stops_when_good(planned, score, key):
    """The twin: it ends at the first good score."""
    first, *keys = jax.random.split(key, 1 + planned.law.most)
    for each in keys[: planned.law.draw(module._uniform(first))]:
        if module._trial(planned, score, 0, each, 0.0).score > 0.5:
            return


def proposes(planned, score, key):
    """The twin: it stays with a setting that did well."""
    first, *keys = jax.random.split(key, 1 + planned.law.most)
    place = 0
    for each in keys[: planned.law.draw(module._uniform(first))]:
        if module._trial(planned, score, place, each, 0.0).score < 0.5:
            place = (place + 1) % 3


def test_neither_the_number_of_trials_nor_their_settings_follow_scores(monkeypatch):
    low, high = drawn(monkeypatch, [0.1]), drawn(monkeypatch, [0.9])
    assert low == high
    for twin in (stops_when_good, proposes):
        assert drawn(monkeypatch, [0.1], twin) != drawn(monkeypatch, [0.9], twin)


def test_settings_are_drawn_with_repetition_by_their_chances(monkeypatch):
    """About 180 draws: a share's standard error is at most 0.04. Without repetition no setting would come twice."""
    searches = drawn(monkeypatch, [0.1])
    flat = [place for places in searches for place in places]
    assert abs(flat.count(0) / len(flat) - 0.5) < 0.2
    assert any(len(set(places)) < len(places) for places in searches)
    lengths = [len(places) for places in searches]
    assert abs(np.mean(lengths) - 3) < 5 * np.std(lengths) / math.sqrt(len(lengths))
    assert min(lengths) >= 1


def test_every_trial_has_a_key_of_its_own(monkeypatch):
    planned, made = pretend(monkeypatch, [0.1], fixed(6))
    module.best_of(planned, "loss", new_key(0))
    assert len({key for _, key in made}) == 6


# The score


@pytest.mark.parametrize("score", ["loss", "accuracy", "squares"])
def test_one_record_moves_the_score_by_a_bounded_amount(score):
    """Also with a loss that is huge, infinite, negative or not a number; and nothing else moves."""
    judged = Judged(lambda model, record: model * record, score)
    start = {"score": jnp.zeros(()), "model": jnp.ones(())}
    gradient = jax.vmap(jax.grad(judged), (None, 0))
    found = gradient(start, jnp.array([0.0, 0.3, 0.9, 5.0, 1e30, jnp.inf, -jnp.inf, jnp.nan]))
    assert np.abs(found["score"]).max() == judged.half
    assert np.ptp(found["score"]) == 2 * judged.half
    np.testing.assert_array_equal(found["model"], 0.0)
    assert found["score"][-1] == judged.half  # what cannot be judged counts as bad as can be


def test_no_model_scores_better_than_the_one_that_is_right_about_chances():
    """Of records that are positive with chance 0.8. The twin, a logarithm cut at 2, wants one that is too sure."""
    odds = np.linspace(0.1, 8.0, 80)  # log-odds that a model gives to all of them
    losses = np.stack([np.logaddexp(0, -odds), np.logaddexp(0, odds)])
    h = jax.vmap(jax.grad(Judged(lambda model, record: record, "loss")), (None, 0))
    start = {"score": jnp.zeros(()), "model": jnp.zeros(())}
    found = np.asarray(h(start, jnp.asarray(losses.ravel(), jnp.float32))["score"]).reshape(2, -1)
    assert odds[np.argmin([0.8, 0.2] @ found)] == pytest.approx(math.log(4), abs=0.1)
    assert odds[np.argmin([0.8, 0.2] @ np.minimum(losses, 2.0))] > 7


@pytest.mark.slow
def test_a_score_has_the_noise_that_was_planned(table):
    """The same model scored by 40 keys: σ·half/n, and a sample's deviation is within 5 standard errors of it.

    The twin, an exact score, has none.
    """
    X, y = table
    planned = make().rehearse(X, y)
    candidate = planned.candidates[0]
    *_, stage = candidate.stages("loss")
    model = jax.tree.map(jnp.zeros_like, candidate.task.init)
    asked = stage.pose({"training": model})
    plan = gs.plan(asked.method, N, planned.budget)
    noise = planned.selection.schedules[0]["score"].noise_multiplier
    from gossamer.engine.solving import make_ready, run_ready

    ready = make_ready(asked.problem, asked.data, asked.method, asked.init)
    query = dataclasses.replace(next(iter(plan.schedule)), noise_multiplier=noise)
    plan = dataclasses.replace(plan, schedule=gs.Schedule((query,)))
    scores = [float(run_ready(ready, plan, new_key(seed), seed=0).params["score"]) for seed in range(40)]
    expected = noise * asked.method.clip / N
    assert np.std(scores, ddof=1) == pytest.approx(expected, abs=5 * expected / math.sqrt(2 * 39))
    exact = 0.5 - 0.25  # a model of zeros finds everything as probable as not
    assert np.mean(scores) == pytest.approx(exact, abs=5 * expected / math.sqrt(40))


# Bad input


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"grid": {"epsilon": [1.0, 2.0]}}, ValueError, "the search sets itself"),
        ({"grid": {"random_state": [1]}}, ValueError, "the search sets itself"),
        ({"grid": {}}, ValueError, "grid has 0 settings"),
        ({"grid": {"l2": list(range(100))}}, ValueError, "grid has 100 settings"),
        ({"grid": 3.0}, TypeError, "grid = 3.0 must be"),
        ({"grid": {"penalty": [1]}}, ValueError, "Invalid parameter"),
        ({"score": "auc"}, ValueError, "score = 'auc'"),
        ({"trials": 1}, ValueError, "trials = 1 must be above 1"),
        ({"trials": 50}, ValueError, "trials = 50 must be above 1 and below"),
        ({"chances": [0.5, 0.4]}, ValueError, "add up to 1"),
        ({"chances": [1.0]}, ValueError, "must be 2 numbers"),
        ({"epsilon": math.inf}, ValueError, "GridSearchCV"),
        ({"epsilon": -1.0}, ValueError, "epsilon = -1.0"),
    ],
)
def test_what_does_not_go_together_is_refused(options, error, message, table):
    X, y = table
    with pytest.raises(error, match=message):
        make(**options).rehearse(X, y)


def test_the_search_pays_and_its_trials_do_not(table, tmp_path, monkeypatch):
    """An estimator with a ledger inside a search would train without paying: refused. The search pays once."""
    X, y = table
    (tmp_path / "t.csv").write_text("a\n1\n")
    aside = gs.BudgetFile.create(tmp_path / "b", 5.0, 1e-2, "replace_one", tmp_path / "t.csv", aside=(3.0, 2e-3))
    search = make()
    search.estimator.ledger = aside
    with pytest.raises(ValueError, match="which would not pay"):
        search.rehearse(X, y)
    assert aside.entries() == []
    monkeypatch.setattr(module, "best_of", lambda *arguments: 1 / 0)  # what is reserved is spent, whatever follows
    with pytest.raises(ZeroDivisionError):
        make(ledger=aside).fit(X, y)
    (entry,) = aside.entries()
    assert (float(entry.amount.epsilon), float(entry.amount.delta)) == (2.0, 1e-3)
    with pytest.raises(ValueError, match="more than"):
        make(ledger=aside).fit(X, y)


def test_an_estimator_that_is_not_private_is_refused(table):
    for wrong in (LogisticRegression(), make_pipeline(PrivateLogisticRegression())):
        with pytest.raises(TypeError, match=r"must be an estimator of gs\.learn"):
            PrivateSearch(wrong, {"C": [1.0]}).fit(*table)


def test_leaks_are_warned_of_once_and_are_on_the_certificate(table):
    X, y = table
    model = PrivateLogisticRegression(classes=[0, 1], method=gs.methods.GD(steps=2))
    with pytest.warns(gs.PrivacyLeakWarning) as seen:
        planned = PrivateSearch(model, {"l2": [0.1, 0.2]}, 2.0, 1e-3, trials=2).rehearse(X, y)
    assert len([each for each in seen if each.category is gs.PrivacyLeakWarning]) == 1
    assert [leak.name for leak in planned.candidates[0].leaks] == ["data_norm"]
