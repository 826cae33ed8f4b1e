"""Settings in words."""

import dataclasses

import pytest
from testkit.pages import Page, certificate

from gossamer.report import render
from gossamer.report.settings import words


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "_AUCLoss(model=MLP(sigmoid=True), p=0.25, scale=1.0)",
            "AUC loss (model = MLP (sigmoid = yes), p = 0.25, scale = 1)",
        ),
        (
            "_GroupLoss(loss=CrossEntropy(), weights=(4.5, -1e-07))",
            "group loss (loss = cross entropy, weights = (4.5, −1 × 10⁻⁷))",
        ),
        ("LinearLoss(pointwise=_logistic, exclude=())", "linear loss (pointwise = logistic, exclude = none)"),
        ("KLCVaR(share=0.1)", "KLCVaR (share = 0.1)"),
        ("L2Ball(radius=None)", "L2 ball (radius = none)"),
        ("None", "none"),
        ("(x, y)", "(x, y)"),
        ("loss_of.<locals>.<lambda>", "loss_of.<locals>.<lambda>"),
        ("_private", "_private"),
    ],
)
def test_code_in_words(code, said):
    assert words(code).replace("\u00a0", " ") == said


def test_what_was_spelled_out_is_not_repeated_and_attributes_lose_their_underscore():
    loss = "_AUCLoss(p=0.25)"
    promised = dataclasses.replace(
        certificate(), problem={"loss": loss, "best_response": f"_Best(loss={loss}, not_this=X{loss})"}
    )
    text = Page(render(promised, {}, {"model": {"numbers": {"data_norm_": 2.5}}})).text.replace("\u00a0", " ")
    assert "best_response\x00best (loss = as above, not_this = X_AUC loss (p = 0.25))" in text
    assert "data_norm\x002.5" in text
