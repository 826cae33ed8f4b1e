"""Several stages as one schedule: each has its share, blocks are paid for once only, and what is stated is checked."""

import dataclasses
import math

import pytest
from scipy import optimize, stats

import gossamer as gs
from gossamer.privacy import accounting
from gossamer.privacy.certificate import Certificate, certify
from gossamer.privacy.stages import TRAINING, Part, Stages, leading_cost

ONCE = gs.methods.GD(steps=1)
BLOCKS = gs.methods.O2NC(steps=4, radius=0.1)


def stages(*parts):
    return Stages(tuple(Part(*part) for part in parts))


def mu_of(epsilon, delta):
    """Return the μ of Gaussian differential privacy at (ε, δ), from its formula."""

    def excess(mu):
        here = stats.norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * stats.norm.cdf(-epsilon / mu - mu / 2)
        return here - delta

    return optimize.brentq(excess, 1e-3, 10)


def test_full_passes_have_the_noise_of_the_closed_form():
    """σ = 2√(R/s)/μ for R queries with the share s, under replace-one; INFLATION and rounding are below 0.3 %."""
    joint = stages(("bounds", gs.methods.GD(steps=13), 0.05), (TRAINING, gs.methods.GD(steps=100), 0.95))
    planned = gs.plan(joint, 32_561, gs.Budget(1.0, 1e-6))
    mu = mu_of(1.0, 1e-6)
    for name, count, share in (("bounds", 13, 0.05), ("gradient", 100, 0.95)):
        expected = 2 * math.sqrt(count / share) / mu
        assert planned.schedule[name].noise_multiplier == pytest.approx(expected, rel=3e-3)


SAMPLED = gs.methods.SGD(steps=50, batch_size=16)
TWO = gs.methods.DoubleSpider(steps=10, period=5, batch_size=64)


@pytest.mark.parametrize(
    ("method", "neighbors"),
    [(TWO, "replace_one"), (TWO, "add_remove"), pytest.param(SAMPLED, "replace_one", marks=pytest.mark.slow)],
    ids=["replace", "absent", "sampled"],
)
def test_each_stage_has_its_share_of_the_leading_cost(method, neighbors):
    joint = stages(("a", gs.methods.GD(steps=3), 0.1), (TRAINING, method, 0.7), ("b", TWO, 0.2))
    planned = gs.plan(joint, 64, gs.Budget(2.0, 1e-4, neighbors))
    total = leading_cost(planned.schedule)
    for part in joint.parts:
        own = joint.part(planned, part.name)
        assert leading_cost(own.schedule) == pytest.approx(part.share * total, rel=1e-9)
        assert [query.name for query in own.schedule] == [query.name for query in part.method.schedule(64)]
        assert own.elsewhere == len(planned.schedule.queries) - len(own.schedule.queries)
    names = [query.name for query in planned.schedule]
    assert names[0] == "a" and names[-4:] == [f"b: {query.name}" for query in TWO.schedule(64)]
    assert set(dict(planned.capacities)) == {q.name for q in planned.schedule if q.sampling.has_capacity}


def test_one_stage_alone_is_planned_like_its_method():
    alone = gs.plan(stages((TRAINING, TWO, 1.0)), 64, gs.Budget(1.0, 1e-3))
    assert alone.schedule == gs.plan(TWO, 64, gs.Budget(1.0, 1e-3)).schedule


@pytest.mark.parametrize("neighbors", ["replace_one", "add_remove"])
def test_the_same_training_noise_buys_with_a_sixth_of_the_noise(neighbors):
    """Before, 5 % of ε and δ bought a share, and the rest trained: σ = 165 and 88.9, under replace-one.

    The share of the cost with which the training has the same noise is 1 − (84.5/88.9)² = 9.7 %.
    """
    n, whole = 32_561, gs.Budget(1.0, 1e-6, neighbors)
    parts = [gs.Budget(part, 1e-6 * part, neighbors) for part in (0.05, 0.95)]
    bought, trained = (
        gs.plan(method, n, part).schedule["gradient"].noise_multiplier
        for method, part in zip((ONCE, gs.methods.GD()), parts, strict=True)
    )
    alone = gs.plan(gs.methods.GD(), n, whole).schedule["gradient"].noise_multiplier
    share = 1 - (alone / trained) ** 2
    joint = gs.plan(stages(("share", ONCE, share), (TRAINING, gs.methods.GD(), 1 - share)), n, whole).schedule
    assert joint["gradient"].noise_multiplier == pytest.approx(trained, rel=1e-3)
    assert 5.5 < bought / joint["share"].noise_multiplier < 6.5


def test_the_certificate_holds_and_a_wrong_one_does_not():
    joint = stages(("share", ONCE, 0.05), (TRAINING, TWO, 0.9), ("score", ONCE, 0.05))
    planned = gs.plan(joint, 64, gs.Budget(1.0, 1e-3))
    planned = dataclasses.replace(planned, method=TWO)
    certificate = certify(planned, gs.ERM(gs.objectives.logistic), None, False, purchases=joint.purchases(64))
    certificate = Certificate.from_json(certificate.to_json())
    assert [(each.name, each.after) for each in certificate.purchases] == [("share", False), ("score", True)]
    outcome = certificate.verify()
    assert outcome and outcome.epsilon == pytest.approx(1.0, rel=5e-3)
    sentences = "\n".join(certificate.assumptions)
    assert (
        "also depend on the private answer 'share'" in sentences and "there is the private answer 'score'" in sentences
    )
    for name in ("share", "gradient"):  # less noise than is stated: the whole costs more
        noises = [q.noise_multiplier * (0.3 if q.name == name else 1) for q in certificate.schedule]
        twin = dataclasses.replace(certificate, schedule=certificate.schedule.with_noise(tuple(noises)))
        assert "it states ε = 1" in twin.verify().wrong[0]


def test_blocks_of_two_stages_are_refused():
    """A record is in a block of each. Accounted as one schedule it would be paid for once: this is what that hides."""
    queries = tuple(gs.Query(name, 4, gs.Blocks(8), noise_multiplier=2.0) for name in ("one", "two"))
    one_order = accounting.pld_epsilon(gs.Schedule(queries), 1e-3, "replace_one")
    two_orders = accounting.pld_epsilon(gs.Schedule((gs.Query("both", 2, noise_multiplier=2.0),)), 1e-3, "replace_one")
    assert two_orders > 1.3 * one_order
    with pytest.raises(gs.AccountingError, match="two stages ask disjoint blocks"):
        gs.plan(stages(("first", BLOCKS, 0.5), (TRAINING, BLOCKS, 0.5)), 640, gs.Budget(1.0, 1e-3))
    joint = stages(("first", ONCE, 0.5), (TRAINING, BLOCKS, 0.5))
    planned = dataclasses.replace(gs.plan(joint, 640, gs.Budget(1.0, 1e-3)), method=BLOCKS)
    text = certify(planned, gs.BlackBox(len), None, False, purchases=joint.purchases(640)).to_json()
    assert Certificate.from_json(text)
    forged = text.replace('"kind": "all"', '"kind": "blocks", "rows": 4, "stream": null')
    with pytest.raises(ValueError, match="two stages ask disjoint blocks"):
        Certificate.from_json(forged)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([("a", ONCE, 0.5)], "one of them must be 'training'"),
        ([("a", ONCE, 0.2), ("a", ONCE, 0.2), (TRAINING, ONCE, 0.6)], "different names"),
        ([("a", ONCE, 0.5), (TRAINING, ONCE, 0.6)], "add up to 1.1"),
        ([("a", ONCE, 0.0), (TRAINING, ONCE, 1.0)], "share = 0.0 must be above 0"),
        ([("a", ONCE, math.nan), (TRAINING, ONCE, 1.0)], "share = nan must be above 0"),
    ],
)
def test_stages_that_make_no_sense_are_refused(parts, message):
    with pytest.raises(ValueError, match=message):
        stages(*parts)
