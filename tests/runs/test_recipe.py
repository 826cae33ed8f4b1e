"""What a run is told, and what it refuses to be told."""

import json

import pytest

import gossamer as gs
from gossamer.learn._divergences import parse_divergence
from gossamer.runs.recipe import Recipe


def test_a_recipe_survives_json():
    settings = {"hidden": (4, 2), "divergence": "kl-cvar:0.1", "penalty": 2.0}
    recipe = Recipe("dro", "DoubleSpider", {"steps": 3, "clip": 0.5}, settings)
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe
    groups = Recipe("worst-group", settings={"group_shares": (0.5, 0.5)})
    assert Recipe.from_dict(json.loads(json.dumps(groups.to_dict()))) == groups


def test_a_recipe_of_format_1_is_read():
    plain = {"objective": "dro", "method": None, "options": {"steps": 3}, "hidden": [4, 2], "divergence": "kl"}
    plain |= {"penalty": None, "radius": 0.3, "group_shares": None}
    settings = {"hidden": (4, 2), "divergence": "kl", "radius": 0.3}
    assert Recipe.from_dict(plain) == Recipe("dro", options={"steps": 3}, settings=settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"objective": "regression"}, "objective = 'regression' must be one of"),
        ({"settings": {"hidden": (3,)}}, "hidden = .3,. does not go with objective = 'logistic'"),
        ({"objective": "auc", "settings": {"penalty": 1.0}}, "penalty = 1.0 does not go with .*train for 'dro'"),
        ({"objective": "dro", "settings": {"group_shares": (0.5, 0.5)}}, "train for 'worst-group'"),
        ({"objective": "auc", "settings": {"hidden": (0,)}}, "hidden = .0,. must be whole numbers of at least 1"),
        ({"objective": "dro", "settings": {"penalty": float("nan")}}, "penalty = nan must be a finite number"),
        ({"objective": "dro", "settings": {"divergence": 3}}, "divergence = 3 must be a word"),
        ({"settings": {"colour": 3}}, "colour = 3 does not go with objective = 'logistic'. Leave it out.$"),
        ({"method": "AccMD"}, "'AccMD' cannot train for objective = 'logistic'. .* take one of Whitened, GD, SGD"),
        ({"method": "Adam"}, "'Adam' cannot train for objective = 'logistic'"),
        ({"options": {"momentum": 0.9}}, "must be some of steps"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**settings)


@pytest.mark.parametrize(
    "plain",
    [
        *(None, [], {}, {**Recipe().to_dict(), "x": 1}, {**Recipe().to_dict(), "options": 3}),
        *({**Recipe().to_dict(), "settings": [1]}, {**Recipe().to_dict(), "objective": ["auc"]}),
    ],
)
def test_other_values_are_no_recipe(plain):
    with pytest.raises(ValueError, match=r"a recipe has the fields|a recipe's|objective = "):
        Recipe.from_dict(plain)


def test_options_change_the_method_of_the_model():
    default = gs.methods.SGDA(clip_x=1.0, clip_y=7.0)
    changed = Recipe("auc", options={"steps": 3, "clip": 0.5, "learning_rate": 2.0, "batch_size": 9}).configured(
        default
    )
    assert changed == gs.methods.SGDA(steps=3, clip_x=0.5, clip_y=7.0, learning_rate_x=2.0, batch_size=9)
    assert Recipe(method="SGD", options={"clip": 0.5}).configured(default) == gs.methods.SGD(clip=0.5)
    with pytest.raises(ValueError, match="GD has no batch_size"):
        Recipe(method="GD", options={"batch_size": 9}).configured(default)


def test_words_for_divergences():
    assert parse_divergence("chi-square") == gs.ChiSquare()
    assert parse_divergence("kl") == gs.KL()
    assert parse_divergence("kl-cvar:0.1") == gs.KLCVaR(0.1)
    assert parse_divergence("cressie-read:3") == gs.CressieRead(3.0)
    for word in ("", "tv", "kl:1", "kl-cvar", "kl-cvar:x", "kl-cvar:", "kl-cvar:0.1:2"):
        with pytest.raises(ValueError, match="must be chi-square, kl, kl-cvar:ALPHA"):
            parse_divergence(word)
    with pytest.raises(ValueError, match=r"alpha = 2\.0 must be in"):
        parse_divergence("kl-cvar:2")
