"""Settings in words."""

import dataclasses

import pytest
from testkit.pages import Page, certificate

from gossamer.report import render
from gossamer.report.settings import words

AUC_LOSS = {"kind": "_AUCLoss", "model": {"kind": "MLP", "sigmoid": True}, "p": 0.25, "scale": 1.0}


@pytest.mark.parametrize(
    ("described", "said"),
    [
        (AUC_LOSS, "AUC loss (model = MLP (sigmoid = yes), p = 0.25, scale = 1)"),
        (
            {"kind": "_GroupLoss", "loss": {"kind": "CrossEntropy"}, "weights": [4.5, -1e-07]},
            "group loss (loss = cross entropy, weights = (4.5, −1 × 10⁻⁷))",
        ),
        (
            {"kind": "LinearLoss", "pointwise": "_logistic", "exclude": [], "lipschitz": 1.0, "curvature": None},
            "linear loss (loss of one score = logistic, largest slope = 1)",
        ),
        ({"kind": "KLCVaR", "share": 0.1}, "KLCVaR (share = 0.1)"),
        ({"kind": "L2Ball", "radius": 2}, "L2 ball (radius = 2)"),
        (None, "none"),
        ([], "none"),
        ("loss_of.<locals>.<lambda>", "loss_of.<locals>.<lambda>"),
        ("LinearLoss(pointwise=_logistic)", "LinearLoss(pointwise=_logistic)"),  # as format 1 had it: text is not read
    ],
)
def test_descriptions_in_words(described, said):
    assert words(described).replace("\u00a0", " ") == said


def test_what_was_spelled_out_is_not_repeated_and_attributes_lose_their_underscore():
    best = {"kind": "_Best", "loss": AUC_LOSS, "not_this": {**AUC_LOSS, "p": 0.5}}
    promised = dataclasses.replace(certificate(), problem={"loss": AUC_LOSS, "best_response": best})
    text = Page(render(promised, {}, {"model": {"numbers": {"data_norm_": 2.5}}})).text.replace("\u00a0", " ")
    assert "best_response\x00best (loss = as above, not_this = AUC loss (model = MLP (sigmoid = yes), p = 0.5" in text
    assert "data_norm\x002.5" in text
