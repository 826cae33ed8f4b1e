"""What a report says, about promises that hold and about others; and nothing from outside is ever markup."""

import dataclasses
import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from testkit.pages import Page, certificate

import gossamer as gs
from gossamer.base.leak import Leak
from gossamer.privacy import tradeoff
from gossamer.privacy.facts import Bought
from gossamer.privacy.sampling import Blocks, Poisson
from gossamer.privacy.schedule import Query, Schedule
from gossamer.privacy.searching import plan_search
from gossamer.report import citing, render
from gossamer.report.course import _shares
from gossamer.report.judging import judge
from gossamer.report.markup import Markup, visible

HISTORY = {"step": np.arange(1.0, 11.0), "gradient_norm": np.geomspace(1.0, 1e-3, 10), "dual": np.full(10, math.nan)}
PIPELINE = {
    "format": 1,
    "objective": "logistic",
    "target": "income",
    "schema": {
        "target": "income",
        "classes": ["<=50K", ">50K"],
        "columns": {
            "age": {"kind": "number", "low": 17, "high": 90},
            "sex": {"kind": "category", "values": ["F", "M"]},
        },
    },
    "model": {"estimator": "PrivateLogisticRegression", "features": 3},
}
LEAKY = {**PIPELINE, "schema": {"columns": {"age": {"kind": "number", "low": 17, "high": 90, "read_from_data": True}}}}
LEAK = Leak("data_norm", "the largest row norm", "argument")
NOT_MET = "NOT MET: data_norm, the largest row norm, was read from the records and is outside this guarantee."


def report(promised=None, history=HISTORY, pipeline=PIPELINE):
    return Page(render(certificate() if promised is None else promised, history, pipeline))


def test_every_figure_says_what_to_conclude():
    page = report()
    assert "The nearer the solid line is to the dotted one, the less the model tells" in page.text
    assert "A line that has become level says that the run had settled" in page.text
    assert report(dataclasses.replace(certificate(), configuration={"noise": None})).text.count("not set by hand") == 1


@pytest.mark.slow
def test_what_an_attacker_can_do_with_a_search_is_not_read_off_one_trial():
    """The curve of one trial is below that of the search, and so no limit to it."""
    budget = gs.Budget(1.0, 1e-5)
    selection, (planned,) = plan_search(
        lambda each: [gs.plan(gs.methods.GD(steps=10, clip=0.5), 1000, each)], budget, 1000, trials=5, eta=2, most=20
    )
    searched = dataclasses.replace(certificate(), schedule=planned.schedule, selection=selection)
    found = judge(searched, unconfirmed=False)
    assert found.verification
    one = tradeoff.scheduled(planned.schedule, planned.budget, 1000, {})
    assert found.scheduled.even_odds() == tradeoff.certified(budget).even_odds() > one.even_odds()
    page = report(searched)
    assert "5 trials are to be expected, and how many there were is secret" in page.text
    assert "which are about all trials of the search" in page.text
    assert "only use that was made" not in page.text


def test_a_sound_run_says_so_and_shows_everything_in_order():
    page = report()
    assert page.with_class("holds") and not page.with_class("bad") and not page.with_class("warn")
    order = [
        "Privacy report",
        "✓ The promise holds",
        "What was promised",
        "What any attacker could achieve",
        "What was asked of the data",
        "Training",
        "Settings",
        "The table",
        "Assumptions and warnings",
        "Recomputation",
        "Versions",
        "How to cite",
    ]
    places = [page.pieces.index(heading) for heading in order]
    assert places == sorted(places)
    for text in (
        "gradient",
        "age",
        "from 17 to 90",
        "F, M",
        "learning_rate",
        "contour integral",
        "dp-accounting",
        "income",
    ):
        assert any(text in piece for piece in page.pieces), text
    assert sum(tag == "svg" for tag, _ in page.elements) == 3
    policy = next(a["content"] for tag, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")


def test_what_an_attacker_can_do_is_computed_from_the_curve():
    promised = certificate()
    budget = gs.Budget(promised.epsilon, promised.delta)
    curve = tradeoff.scheduled(promised.schedule, budget, promised.n, promised.capacities)
    assert re.search(rf"guesses right at most {100 * curve.even_odds() + 0.05:.1f}\u00a0% of the time", report().text)
    assert f"{100 * curve.found(0.05) + 0.05:.1f}\u00a0% of the cases in which it is right" in report().text
    other = report(certificate(neighbors="add_remove")).text
    assert "wonders, with even odds, whether it is in the table" in other
    assert "narrowed" in report().text and "narrowed" not in other


def test_the_drawn_limits_rise_and_the_schedule_stays_below_the_budget_and_above_blind_guessing():
    chance, certified, scheduled = (
        np.array(re.findall(r"[ML]([\d.]+),([\d.]+)", attributes["d"]), float)
        for kind in ("chance", "other", "main")
        for attributes in report(history={}).with_class(kind)[:1]
    )
    for curve in (chance, certified, scheduled):
        assert np.all(np.diff(curve[:, 1]) <= 0)  # on a page y points down
    assert np.all(scheduled[:, 1] >= certified[:, 1])
    assert np.all(scheduled[:, 1] <= chance[:, 1])
    assert np.max(scheduled[:, 1] - certified[:, 1]) > 20


@pytest.mark.parametrize(
    ("promised", "pipeline", "level", "said"),
    [
        (certificate(math.inf), PIPELINE, "broken", "NO PRIVACY is promised"),
        (certificate(seed=0), PIPELINE, "broken", "can subtract the noise"),
        (dataclasses.replace(certificate(), epsilon=0.5), PIPELINE, "broken", "DOES NOT HOLD"),
        (certificate(diagnostics=True), PIPELINE, "reserved", "Non-private diagnostics were computed"),
        (dataclasses.replace(certificate(), leaks=(LEAK,)), PIPELINE, "reserved", NOT_MET),
        (certificate(), LEAKY, "reserved", "NOT MET: what is marked below"),
        (certificate(30.0), PIPELINE, "reserved", "The promise is weak"),
        (certificate(), {}, "holds", "No schema was kept"),
    ],
)
def test_what_takes_away_from_a_promise_stands_at_the_top(promised, pipeline, level, said):
    page = report(promised, pipeline=pipeline)
    assert [kind for kind in ("holds", "reserved", "broken") if page.with_class(kind)] == [level]
    places = [place for place, piece in enumerate(page.pieces) if said in piece]
    assert places
    assert (places[0] < page.pieces.index("What was promised")) == (level != "holds")
    assert page.with_class({"broken": "bad", "reserved": "warn", "holds": "verdict"}[level])


def test_a_delta_of_one_record_in_the_clear_is_pointed_out():
    with pytest.warns(gs.WeakGuaranteeWarning):
        promised = certificate(delta=0.01)
    assert "one random record in the clear" in report(promised).text


def test_a_schedule_that_no_accountant_understands_is_no_promise():
    silent = certificate().schedule.with_noise((0.0,))
    page = report(dataclasses.replace(certificate(), schedule=silent))
    assert page.with_class("broken")
    assert "costs ε = inf" in page.text


def test_unconfirmed_bounds_are_marked_where_they_stand():
    assert sum("READ FROM THE DATA" in piece for piece in report(pipeline=LEAKY).pieces) == 1
    assert not any("READ FROM THE DATA" in piece for piece in report().pieces)


def test_a_drafts_reason_is_gone_once_the_choice_is_confirmed():
    ignored = {"kind": "ignore", "reason": "more than 50 values?"}
    drafted, confirmed = (
        report(pipeline={"schema": {"columns": {"id": {**ignored, **mark}}}}).pieces
        for mark in ({"read_from_data": True}, {})
    )
    assert "more than 50 values?" in drafted and "left out" not in drafted
    assert "more than 50 values?" not in confirmed and "left out" in confirmed


def test_the_positive_class_is_the_one_that_the_model_scores():
    model = {"classes": ["a", "b"]}
    text = report(pipeline={"schema": {"classes": ["b", "a"]}, "model": model}).text
    assert "positive class\x00b: the higher a score, the more it speaks" in text
    model["classes"].append("c")
    assert "positive class" not in report(pipeline={"model": model}).text


def test_without_noise_nothing_is_called_noisy_or_private():
    claims = ("plus Gaussian noise", "noisy answers", "from the private answers listed", "Outcome\x00holds")
    private, exact = report().text, report(certificate(math.inf)).text
    assert all(claim in private and claim not in exact for claim in claims)
    assert all(said in exact for said in ("the answer is exact", "NOT private", "no privacy is claimed"))


def test_a_huge_epsilon_is_no_likeness():
    weak, strong = report(certificate(40.0)).text, report().text
    assert "perhaps a very different, probability" in weak and "e to the power of 40 times as likely" in weak
    assert "a similar probability" in strong and "about 2.72 times as likely" in strong


def test_many_assumptions_that_are_not_met_are_counted_at_the_top_and_listed_below():
    leaks = tuple(Leak(f"bound_{i}", "a bound", "argument") for i in range(4))
    promised = dataclasses.replace(certificate(), leaks=leaks)
    sentences = promised.assumptions[-4:]
    assert all(sentence.startswith("NOT MET: bound_") for sentence in sentences)
    page = report(promised)
    top = "\x00".join(page.pieces[: page.pieces.index("What was promised")])
    assert "4 assumptions are NOT MET" in top and not any(sentence in top for sentence in sentences)
    assert all(sentence in page.pieces for sentence in sentences)
    assert "assumptions NOT MET: 4" in page.pieces


def test_what_was_bought_has_its_part_of_the_cost_and_sets_what_is_not_free_of_the_records():
    least = min(query.noise_multiplier for query in certificate().schedule)
    query = Query("share", 1, clip="1", noise_multiplier=least)
    bought = Bought("share", ("share",), 0.07)
    schedule = Schedule((query, *certificate().schedule))
    promised = dataclasses.replace(certificate(), schedule=schedule, purchases=(bought,))
    text = report(promised).text
    assert "The answer “share” was bought before the training, with 7\u00a0% of the budget" in text
    assert "the private answer “share” comes from the records" in text
    assert "comes from the records" not in report().text
    text = report(dataclasses.replace(promised, purchases=(dataclasses.replace(bought, after=True),))).text
    assert "The answer “share” was bought after the training" in text
    assert "comes from the records" not in text


def shares_of(*queries):
    return _shares(dataclasses.replace(certificate(), schedule=Schedule(queries)))


def test_shares_of_cost_follow_their_formula():
    """Σ c q²/σ²: 100·1/4 = 25 against 400·0.25/1 = 100; of the blocks the least noisy pays 1/σ² = 25, once."""
    full, sampled = Query("a", 100, noise_multiplier=2.0), Query("b", 400, Poisson(0.5), noise_multiplier=1.0)
    assert shares_of(full, sampled) == {"a": "20\u00a0%", "b": "80\u00a0%"}
    blocks = [Query(name, 5, Blocks(10), noise_multiplier=s) for name, s in (("c", 0.2), ("d", 0.3))]
    shares = shares_of(full, sampled, *blocks)
    assert [int(share[:-2]) for share in shares.values()] == [17, 67, 17, 0]
    assert shares_of(full, Query("e", 1, noise_multiplier=20.0))["e"] == "below 1\u00a0%"


def test_curves_have_words_and_long_ones_a_median():
    page = report(history={"gradient_norm": np.r_[np.full(500, 4.0), np.full(499, 1.0), math.nan]})
    assert "4 at first, 1 at last, between 1 and 4. Gaps in the line: 1 not recorded" in page.text
    assert "median of 10 steps" in page.text
    assert page.with_class("faint")
    assert "recorded no values" in report(history={}).text


@pytest.mark.parametrize("method", [each for each in gs.methods.ALL if each.__name__ not in citing.UNPUBLISHED])
def test_every_method_has_its_paper(method):
    ours, paper = citing.entries(method.__name__, "1.2.3")
    assert "Gossamer" in ours and "1.2.3" in ours
    assert re.match(r"@\w+\{[\w-]+,\n  title", paper) and "author" in paper
    assert paper.count("{") == paper.count("}")


def test_a_method_of_ones_own_has_none():
    assert len(citing.entries("Mine", "1")) == 1


HOSTILE = st.sampled_from(
    [
        "<script>alert(1)</script>",
        "</td></style></title><img src=x onerror=alert(1)>",
        "=cmd|' /C calc'!A0",
        "'\"><svg onload=alert(1)>",
        "&lt;b&gt;&#60;b&#62;",
        "<!--",
        "]]>",
        "\u202egnp.exe",
        "x" * 10_000,
    ]
)
TEXT = st.one_of(
    HOSTILE, st.text(st.characters(exclude_categories=()), max_size=20), st.builds("{}{}".format, HOSTILE, HOSTILE)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(st.lists(TEXT, min_size=15, max_size=15, unique=True), JSON)
def test_no_text_from_outside_becomes_markup_and_all_of_it_is_there(texts, anything):
    method, why, key, value, kind, sentence, package, version, query, clip, target, column, name, what, curve = texts
    schedule = Schedule((dataclasses.replace(certificate().schedule["gradient"], name=query, clip=clip),))
    promised = dataclasses.replace(
        certificate(),
        method=method,
        trusted=(why,),
        configuration={key: value},
        problem={"kind": kind},
        noted=(sentence,),
        leaks=(Leak(name, what, "argument"), Leak("", what, "noted")),
        versions={package: version},
        schedule=schedule,
    )
    pipeline = {
        "objective": target,
        "target": target,
        "schema": {"columns": {column: {"kind": kind, "low": 0, key: value}, "other": anything}},
        "model": anything,
    }
    page = report(promised, {curve: np.arange(3.0)}, pipeline)
    for text in texts:
        assert visible(text) in page.text, text
    for broken in ({"schema": anything}, {"schema": {"columns": anything}}, {"model": anything, "target": anything}):
        report(certificate(math.inf), {}, broken)  # nothing to recompute


def test_the_reader_would_notice():
    with pytest.raises(AssertionError, match="script"):
        Page(Markup(render(certificate(), {}, PIPELINE).replace("income", "<script>alert(1)</script>")))


LEARNED = {
    "moves": "the log-odds of 'yes'",
    "scores": ["yes"],
    "columns": [
        {
            "column": "age",
            "values": ["0", "50", "<b>missing</b>"],
            "effects": [[-1.5], [0.0], [0.25]],
            "curve": {"values": [0.0, 50.0, 100.0], "effects": [[-1.5], [0.0], [2.0]]},
        },
        {"column": "ward", "values": ["A", "B"], "effects": [[-0.1], [0.1]]},
    ],
}
TEST = {
    "private": False,
    "n": 40,
    "auc": 0.8125,
    "recall": None,
    "errors": {"auc": 0.0625},
    "positive": "yes",
    "group": "ward",
    "groups": {"A": {"n": 20, "auc": 0.75, "errors": {"auc": 0.125}}},
}


def test_a_report_leads_with_the_model_and_warns_once():
    """What was trained, how good it is, what it learned, then the promise; but a broken promise comes before all."""
    told = {**PIPELINE, "learned": LEARNED, "test": TEST}
    page = report(dataclasses.replace(certificate(), leaks=(LEAK,)), pipeline=told)
    order = ["Privacy report", "How good it is", "What it learned", "The promise", "What was promised"]
    places = [page.pieces.index(heading) for heading in order]
    assert places == sorted(places)
    assert page.text.count(NOT_MET) == 1
    for text in ("0.812", "± 0.062", "ward = A", "they are NOT private", "+0.25", "<b>missing</b>"):
        assert text in page.text, text
    assert any(attributes.get("id") == "shape-0" for _, attributes in page.elements)
    broken = report(dataclasses.replace(certificate(), reproducible=True), pipeline=told)
    assert broken.pieces.index("✕ Do not rely on this promise") < broken.pieces.index("How good it is")


@pytest.mark.parametrize(
    "learned",
    [
        None,
        [],
        {"scores": ["yes"]},
        {**LEARNED, "columns": 7},
        {**LEARNED, "columns": []},
        {**LEARNED, "scores": ["a", "b"]},
        {**LEARNED, "columns": [{**LEARNED["columns"][0], "effects": [["x"], [0], [1]]}]},
        {**LEARNED, "columns": [{**LEARNED["columns"][0], "effects": [[math.inf], [0], [1]]}]},
        {**LEARNED, "columns": [{**LEARNED["columns"][0], "curve": {"values": [1, 1], "effects": [[0], [1]]}}]},
        {**LEARNED, "columns": [{**LEARNED["columns"][0], "curve": {"values": [1], "effects": [[0]]}}]},
    ],
)
def test_what_is_not_an_explanation_is_not_shown(learned):
    page = report(pipeline={**PIPELINE, "learned": learned, "test": [1]})
    assert "What it learned" not in page.pieces and "How good it is" not in page.pieces
