"""What a run was told to do, as plain values: enough to make its estimator, and to make it again for an audit."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gossamer.tables.wording import shown_list

if TYPE_CHECKING:
    from gossamer.budget import Budget
    from gossamer.learn._common import PrivateEstimator
    from gossamer.methods import Method
    from gossamer.objectives import Divergence
    from gossamer.tables.schema import Schema

OBJECTIVES = ("logistic", "auc", "dro", "worst-group")
_BELONGS = {
    "hidden": ("auc", "dro", "worst-group"),
    "divergence": ("dro",),
    "penalty": ("dro",),
    "radius": ("dro",),
    "group_shares": ("worst-group",),
}
"""Which objectives have which setting."""
_OPTIONS = ("steps", "learning_rate", "clip", "batch_size")


@dataclass(frozen=True)
class Recipe:
    """What a model is trained for, and how.

    Args:
      objective: one of `OBJECTIVES`.
      method: the name of a method in `gs.methods`; None takes the estimator's own, with settings that suit it.
      options: some of steps, learning_rate, clip and batch_size, in place of the method's. Of a method with two players
        they are the model's.
      hidden: sizes of hidden layers; () is a linear model.
      divergence: such as "chi-square", "kl", "kl-cvar:0.1" or "cressie-read:3".
      penalty: the price of one unit of divergence.
      radius: the most divergence that is allowed, in place of a penalty.
      group_shares: the public share of records in each group, in the order of the schema's groups; None buys them
        with 5 % of the budget.
    """

    objective: str = "logistic"
    method: str | None = None
    options: Mapping[str, float] = field(default_factory=dict)
    hidden: tuple[int, ...] = ()
    divergence: str | None = None
    penalty: float | None = None
    radius: float | None = None
    group_shares: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise ValueError(f"objective = {self.objective!r} must be one of {', '.join(map(repr, OBJECTIVES))}.")
        for name, objectives in _BELONGS.items():
            if getattr(self, name) not in (None, ()) and self.objective not in objectives:
                raise ValueError(
                    f"{name} = {getattr(self, name)!r} does not go with objective = {self.objective!r}. Leave it out, "
                    f"or train for {' or '.join(map(repr, objectives))}."
                )
        for size in self.hidden:
            if not (type(size) is int and size >= 1):
                raise ValueError(f"hidden = {self.hidden!r} must be whole numbers of at least 1, such as 64,32.")
        unknown = sorted(set(self.options) - set(_OPTIONS))
        if unknown:
            raise ValueError(f"options = {unknown} must be some of {', '.join(_OPTIONS)}.")

    @property
    def grouped(self) -> bool:
        """Whether the model is trained for the worst group."""
        return self.objective == "worst-group"

    def estimator(self, schema: "Schema", budget: "Budget", **settings: Any) -> "PrivateEstimator":
        """Return the estimator, unfitted, with the schema's public bounds and this recipe's method.

        `settings` are further parameters of it.
        """
        from gossamer import learn

        if self.grouped and schema.group is None:
            raise ValueError(
                "objective = 'worst-group' needs to know each record's group. Write two lines at the top of the schema "
                'file: group = "COLUMN" and groups = ["a", "b"], its public values. Without a schema file, pass '
                "--group COLUMN --groups 'a|b'."
            )
        if self.objective == "auc" and len(schema.classes) > 2:
            raise ValueError(
                f"objective = 'auc' is about two classes, and target {schema.target!r} has {len(schema.classes)}: "
                f"{shown_list(map(repr, schema.classes))}. Make two of them, or train for another objective."
            )
        common: dict[str, Any] = {
            "epsilon": budget.epsilon,
            "delta": budget.delta,
            "neighbors": budget.neighbors,
            "data_norm": schema.row_norm,
            "classes": list(range(len(schema.classes))),  # by place: estimators sort their classes
            "method": self.configured,
            **settings,
        }
        if self.objective == "logistic":
            return learn.PrivateLogisticRegression(**common)
        if self.objective == "auc":
            return learn.PrivateAUCClassifier(hidden_layer_sizes=self.hidden, **common)
        groups = {"groups": list(schema.groups), "group_shares": self.group_shares} if self.grouped else {}
        return learn.PrivateDROClassifier(
            divergence=None if self.divergence is None else parse_divergence(self.divergence),
            penalty=self.penalty,
            radius=self.radius,
            hidden_layer_sizes=self.hidden,
            **groups,
            **common,
        )

    def configured(self, default: "Method") -> "Method":
        """Return the method of this name, or else the default one, with the options."""
        from gossamer import methods

        if self.method is not None and self.method not in (kind.__name__ for kind in methods.ALL):
            known = ", ".join(kind.__name__ for kind in methods.ALL)
            raise ValueError(f"method = {self.method!r} must be one of {known}.")
        method: Any = default if self.method is None else getattr(methods, self.method)()
        fields = {each.name for each in dataclasses.fields(method)}
        changes = {}
        for name, value in self.options.items():
            of_model = name if name in fields else f"{name}_x"
            if of_model not in fields:
                raise ValueError(f"{type(method).__name__} has no {name}. Leave that option out.")
            changes[of_model] = value
        return dataclasses.replace(method, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, plain: Any) -> "Recipe":
        """Return the recipe that `to_dict` made plain; anything else is a ValueError."""
        names = {each.name for each in dataclasses.fields(cls)}
        if not isinstance(plain, dict) or set(plain) != names or not isinstance(plain["options"], dict):
            raise ValueError(f"a recipe has the fields {sorted(names)}.")
        lists = {name: tuple(plain[name]) for name in ("hidden", "group_shares") if isinstance(plain[name], list)}
        try:
            return cls(**{**plain, **lists})
        except TypeError as error:
            raise ValueError(f"not a recipe: {error}.") from None


def parse_divergence(text: str) -> "Divergence":
    """Return the divergence that a word means: "chi-square", "kl", "kl-cvar:ALPHA" or "cressie-read:K"."""
    from gossamer import objectives

    kinds: dict[str, Any] = {
        "chi-square": objectives.ChiSquare,
        "kl": objectives.KL,
        "kl-cvar": objectives.KLCVaR,
        "cressie-read": objectives.CressieRead,
    }
    name, *rest = text.split(":")
    try:
        parameters = [float(each) for each in rest]
        understood = len(parameters) == len(dataclasses.fields(kinds[name]))
    except (KeyError, ValueError):
        understood = False
    if not understood:
        raise ValueError(
            f"divergence = {text!r} must be chi-square, kl, kl-cvar:ALPHA such as kl-cvar:0.1, or cressie-read:K such "
            "as cressie-read:3."
        )
    return kinds[name](*parameters)
