"""What the command line can train for: one record per objective, without JAX.

A new estimator enters here, by its record; commands, recipes, stored models, audits and reports read the rest from it.
"""

import importlib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Setting:
    """A setting that not every objective has: a flag of `gossamer fit`, and a parameter of the estimator."""

    name: str
    """Of the flag and in recipes."""
    parameter: str
    """Of the estimator."""
    help: str
    kind: type[str] | type[int] | type[float]
    """str, int (of at least 1) or float."""
    many: bool = False
    """Whether it is a list, such as 64,32."""

    def parse(self, text: str) -> Any:
        """Return what a flag says."""
        try:
            value = tuple(self.kind(each) for each in text.split(",")) if self.many else self.kind(text)
        except ValueError:
            what = "numbers with commas between them" if self.many else "a number"
            raise ValueError(f"--{self.name.replace('_', '-')} {text} must be {what}.") from None
        self.check(value)
        return value

    def check(self, value: Any) -> None:
        """Refuse a value of another kind."""
        if not (isinstance(value, tuple) and all(map(self._fits, value)) if self.many else self._fits(value)):
            one = {str: "a word", int: "a whole number of at least 1", float: "a finite number"}[self.kind]
            many = {int: "whole numbers of at least 1, such as 64,32", float: "finite numbers, such as 0.6,0.4"}
            raise ValueError(f"{self.name} = {value!r:.80} must be {many[self.kind] if self.many else one}.")

    def _fits(self, value: Any) -> bool:
        if type(value) is not self.kind:
            return False
        return value >= 1 if isinstance(value, int) else isinstance(value, str) or math.isfinite(value)


HIDDEN = Setting(
    "hidden",
    "hidden_layer_sizes",
    "Sizes of hidden layers, such as 64,32; if not given, 64 for network, and else none. With logistic it is network.",
    int,
    many=True,
)
THRESHOLD = Setting(
    "threshold",
    "threshold",
    "When the last class is predicted: from this probability on; or, bought with 5 % of the budget, prevalence, for as "
    "many rows as are of it, f1, for the best F1, or auto: 0.5, or prevalence where one class has less than a fifth of "
    "the rows. If not given, auto; for auc prevalence (or balanced).",
    str,
)
DIVERGENCE = Setting("divergence", "divergence", "chi-square, kl, kl-cvar:0.1 or cressie-read:3.", str)
PENALTY = Setting("penalty", "penalty", "The price of one unit of divergence.", float)
RADIUS = Setting("radius", "radius", "The largest divergence, in place of a penalty.", float)
GROUP_SHARES = Setting(
    "group_shares",
    "group_shares",
    "Each group's public share, such as 0.6,0.3,0.1; it need not be exact. If not given, it is bought with 5 % of the "
    "budget.",
    float,
    many=True,
)


@dataclass(frozen=True)
class Objective:
    """What a model is trained for.

    Args:
      name: what `--objective` takes.
      title: of a model that is trained for it, in the middle of a sentence.
      estimator: its class, by its dotted name; a `PrivateEstimator`.
      target: what is predicted: one of the schema's classes, or a number in the schema's range.
      methods: names of the methods in `gs.methods` that can solve its problem.
      keeps: the attributes of a fitted estimator that predictions need, with their shapes in terms of features,
        outputs (1 for two classes) and groups; () is a number.
      layers: whether the estimator keeps a network besides, in `layers_`.
      additive: whether it takes columns as they are declared, and keeps a function of each besides, in `shapes_`.
      settings: those that it has besides what every objective has.
      deeper: the name of the objective that is meant where hidden layers are asked for.
      buys: the parameter of the estimator that is bought with 5 % of the budget unless it is given.
      binary: whether it is about two classes only.
      grouped: whether it needs each record's group.
      calibrated: whether what its classifier calls probabilities may be taken for them.
      search: the narrow grid of a search for which none is given: settings in a recipe's words, "x2" for twice the
        rule's; none, if the rule leaves nothing to search for.
    """

    name: str
    title: str
    estimator: str
    target: Literal["classes", "number"]
    methods: tuple[str, ...]
    keeps: Mapping[str, tuple[str, ...]]
    layers: bool = False
    additive: bool = False
    settings: tuple[Setting, ...] = ()
    deeper: str | None = None
    buys: str | None = None
    binary: bool = False
    grouped: bool = False
    calibrated: bool = True
    search: tuple[Mapping[str, Any], ...] = ()

    def load(self) -> Any:
        """Import the estimator's class."""
        module, _, name = self.estimator.rpartition(".")
        return getattr(importlib.import_module(module), name)


def _table(records: Iterable[Objective]) -> dict[str, Objective]:
    return {record.name: record for record in records}


_ERM = ("Whitened", "GD", "SGD", "SVRG", "SVRGpp", "Spider", "StoSpider", "AdaSpider")
_MINIMAX = ("SGDA", "PrivateDiff", "RGDA")
_STEPS: tuple[Mapping[str, Any], ...] = ({"steps": "x0.5"}, {"steps": "x2"})
_RATES: tuple[Mapping[str, Any], ...] = ({"learning_rate": "x0.5"}, {"learning_rate": "x2"})

OBJECTIVES = _table(
    [
        Objective(
            "logistic",
            "logistic regression",
            "gossamer.learn.PrivateLogisticRegression",
            target="classes",
            methods=_ERM,
            keeps={"coef_": ("outputs", "features"), "intercept_": ("outputs",), "threshold_": ()},
            settings=(THRESHOLD,),
            deeper="network",
            search=_STEPS,
        ),
        Objective(
            "network",
            "network for classes",
            "gossamer.learn.PrivateMLPClassifier",
            target="classes",
            methods=_ERM[1:],
            keeps={"data_norm_": (), "threshold_": ()},
            layers=True,
            settings=(HIDDEN, THRESHOLD),
            search=_RATES,
        ),
        Objective(
            "linear",
            "linear regression",
            "gossamer.learn.PrivateLinearRegression",
            target="number",
            methods=_ERM,
            keeps={"coef_": ("features",), "intercept_": ()},
            search=_STEPS,
        ),
        Objective(
            "additive",
            "additive model",
            "gossamer.learn.PrivateAdditiveClassifier",
            target="classes",
            methods=_ERM,
            keeps={"intercept_": ("outputs",), "threshold_": ()},
            additive=True,
            settings=(THRESHOLD,),
        ),
        Objective(
            "additive-regression",
            "additive regression",
            "gossamer.learn.PrivateAdditiveRegressor",
            target="number",
            methods=_ERM,
            keeps={"intercept_": ("outputs",)},
            additive=True,
        ),
        Objective(
            "auc",
            "classifier for the AUC",
            "gossamer.learn.PrivateAUCClassifier",
            target="classes",
            methods=_MINIMAX,
            keeps={"data_norm_": (), "threshold_": (), "positive_share_": ()},
            layers=True,
            settings=(HIDDEN, THRESHOLD),
            buys="positive_share",
            binary=True,
            calibrated=False,
            search=_RATES,
        ),
        Objective(
            "dro",
            "classifier for the worst case",
            "gossamer.learn.PrivateDROClassifier",
            target="classes",
            methods=("DoubleSpider", "RecursiveSpider"),
            keeps={"data_norm_": ()},
            layers=True,
            settings=(HIDDEN, DIVERGENCE, PENALTY, RADIUS),
            calibrated=False,
            search=_RATES,
        ),
        Objective(
            "worst-group",
            "classifier for the worst group",
            "gossamer.learn.PrivateDROClassifier",
            target="classes",
            methods=_MINIMAX,
            keeps={"data_norm_": (), "group_weights_": ("groups",)},
            layers=True,
            settings=(HIDDEN, GROUP_SHARES),
            buys="group_shares",
            grouped=True,
            calibrated=False,
            search=_RATES,
        ),
    ]
)
"""Every objective by its name. The first is the default."""


def objective_of(name: Any) -> Objective:
    """Return the record of a name; another is a ValueError."""
    if not isinstance(name, str) or name not in OBJECTIVES:
        raise ValueError(f"objective = {name!r:.80} must be one of {', '.join(map(repr, OBJECTIVES))}.")
    return OBJECTIVES[name]


def meant(name: str, settings: Mapping[str, Any]) -> str:
    """Return the objective that a person means by a name and settings: logistic regression with layers is a network."""
    deeper = objective_of(name).deeper
    return deeper if deeper is not None and HIDDEN.name in settings else name


def all_settings() -> dict[Setting, list[str]]:
    """Return the settings that some objectives have, each with the names of these."""
    found: dict[Setting, list[str]] = {}
    for objective in OBJECTIVES.values():
        for setting in objective.settings:
            found.setdefault(setting, []).append(objective.name)
    return found


def all_methods() -> dict[tuple[str, ...], list[str]]:
    """Return the methods that can train for something, each with the names of its objectives."""
    found: dict[tuple[str, ...], list[str]] = {}
    for objective in OBJECTIVES.values():
        found.setdefault(objective.methods, []).append(objective.name)
    return found
