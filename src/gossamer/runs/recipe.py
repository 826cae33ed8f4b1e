"""What a run was told to do, as plain values: enough to make its estimator, and to make it again for an audit."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gossamer.base.messages import first_few
from gossamer.learn._objectives import OBJECTIVES, Objective, all_settings, objective_of

if TYPE_CHECKING:
    from gossamer.learn._common import PrivateEstimator, Task
    from gossamer.methods import Method
    from gossamer.privacy.budget import Budget
    from gossamer.tables.schema import Schema
    from gossamer.tables.table import Table

_OPTIONS = ("steps", "learning_rate", "clip", "batch_size")
_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)")
"""An option in terms of the method's own: x2 is twice that."""
_FORMAT_1 = ("hidden", "divergence", "penalty", "radius", "group_shares")
"""Settings that had places of their own in recipes of format 1."""


@dataclass(frozen=True)
class Recipe:
    """What a model is trained for, and how.

    Args:
      objective: the name of one of `OBJECTIVES`.
      method: the name of a method in `gs.methods`; None takes the estimator's own, with settings that suit it.
      options: some of steps, learning_rate, clip and batch_size, in place of the method's, or "x2" for twice that. Of
        a method with two players they are the model's.
      settings: the objective's own, by their names.
    """

    objective: str = "logistic"
    method: str | None = None
    options: Mapping[str, float | str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = {setting.name: setting for setting in self.record.settings}
        for name, value in self.settings.items():
            if name not in known:
                able = [names for setting, names in all_settings().items() if setting.name == name]
                remedy = f", or train for {' or '.join(map(repr, able[0]))}" if able else ""
                raise ValueError(
                    f"{name} = {value!r:.80} does not go with objective = {self.objective!r}. Leave it out{remedy}."
                )
            known[name].check(value)
        if self.method is not None and self.method not in self.record.methods:
            raise ValueError(
                f"method = {self.method!r:.80} cannot train for objective = {self.objective!r}. Leave it out, or take "
                f"one of {', '.join(self.record.methods)}."
            )
        unknown = sorted(set(self.options) - set(_OPTIONS))
        if unknown:
            raise ValueError(f"options = {unknown} must be some of {', '.join(_OPTIONS)}.")
        for name, value in self.options.items():
            if isinstance(value, str) and not (_FACTOR.fullmatch(value) and float(value[1:]) > 0):
                raise ValueError(f"{name} = {value!r:.80} must be a number, or a factor above 0 such as 'x2'.")

    def varied(self, setting: Mapping[str, Any]) -> "Recipe":
        """Return this recipe with a setting of a grid: a method, options, and settings of the objective."""
        own = dict(setting)
        method = own.pop("method", self.method)
        options = {name: _times(self.options.get(name), own.pop(name)) for name in _OPTIONS if name in own}
        plain = {name: tuple(value) if isinstance(value, list) else value for name, value in own.items()}
        settings = {**self.settings, **plain}
        return dataclasses.replace(self, method=method, options={**self.options, **options}, settings=settings)

    @property
    def record(self) -> Objective:
        """What is known of the objective."""
        return objective_of(self.objective)

    def estimator(self, schema: "Schema", budget: "Budget", **parameters: Any) -> "PrivateEstimator":
        """Return the estimator, unfitted, with the schema's public bounds, this recipe's method and more parameters."""
        self._check_target(schema)
        public: dict[str, Any] = {} if self.record.additive else {"data_norm": schema.row_norm}
        if self.record.target == "number" and self.record.additive:
            public["target_bounds"] = (-schema.target_bound, schema.target_bound)
        elif self.record.target == "number":
            public["target_bound"] = schema.target_bound
        else:
            public["classes"] = list(range(len(schema.classes)))  # by place: estimators sort their classes
        if self.record.grouped:
            if schema.group is None:
                raise ValueError(
                    f"objective = {self.objective!r} needs to know each record's group. Write two lines at the top of "
                    'the schema file: group = "COLUMN" and groups = ["a", "b"], its public values. Without a schema '
                    "file, pass --group COLUMN --groups 'a|b'."
                )
            public["groups"] = list(schema.groups)
        return self.bare_estimator(budget, rows_per_person=schema.rows_per_person, **public, **parameters)

    def rows(self, schema: "Schema", table: "Table") -> Any:
        """Return a table as the estimator takes it."""
        return schema.coded(table) if self.record.additive else schema.encode(table)

    def inputs(self, schema: "Schema") -> int:
        """Return how many columns it then has."""
        return len(schema.features) if self.record.additive else schema.width

    def bare_estimator(self, budget: "Budget", **parameters: Any) -> "PrivateEstimator":
        """Return the estimator, unfitted, as this recipe sets it, with more parameters."""
        own = {each.parameter: self.settings[each.name] for each in self.record.settings if each.name in self.settings}
        return self.record.load()(
            epsilon=budget.epsilon,
            delta=budget.delta,
            neighbors=budget.neighbors,
            **{"method": self.configured, **own, **parameters},
        )

    def outline(self, budget: "Budget", n: int, columns: int, groups: int = 2) -> "Task":
        """Return what the estimator would solve on n records with so many columns, and groups if it needs them."""
        public = {"groups": list(range(groups))} if self.record.grouped else {}
        return self.bare_estimator(budget, **public).outline(n, columns)

    def _check_target(self, schema: "Schema") -> None:
        """Refuse a target of another kind than the objective's."""
        record, target = self.record, schema.target
        if record.target == "number" and schema.target_range is None:
            raise ValueError(
                f"objective = {self.objective!r} predicts a number, and target {target!r} has classes: "
                f"{first_few(map(repr, schema.classes))}. Train for another objective; or, if the target is a number, "
                "write its public range in place of its classes: target_range = [0, 100] in the schema file, or "
                "--target-range 0:100."
            )
        if record.target == "classes" and schema.target_range is not None:
            able = " or ".join(repr(other.name) for other in OBJECTIVES.values() if other.target == "number")
            raise ValueError(
                f"objective = {self.objective!r} predicts classes, and target {target!r} is a number. Train for "
                f"{able}, or make classes of the number first (such as 'low' and 'high')."
            )
        if record.binary and len(schema.classes) > 2:
            raise ValueError(
                f"objective = {self.objective!r} is about two classes, and target {target!r} has "
                f"{len(schema.classes)}: {first_few(map(repr, schema.classes))}. Make two of them, or train for "
                "another objective."
            )

    def configured(self, default: "Method") -> "Method":
        """Return the method of this name, or else the default one, with the options."""
        from gossamer import methods

        return with_options(default if self.method is None else getattr(methods, self.method)(), self.options)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, plain: Any) -> "Recipe":
        """Return the recipe that `to_dict` made plain, now or in format 1; anything else is a ValueError."""
        names = {each.name for each in dataclasses.fields(cls)}
        if isinstance(plain, dict) and set(plain) == {*names, *_FORMAT_1} - {"settings"}:
            settings = {name: plain[name] for name in _FORMAT_1 if plain[name] not in (None, [])}
            plain = {"settings": settings, **{name: plain[name] for name in names - {"settings"}}}
        if not isinstance(plain, dict) or set(plain) != names:
            raise ValueError(f"a recipe has the fields {sorted(names)}.")
        for name in ("options", "settings"):
            if not isinstance(plain[name], dict):
                raise ValueError(f"a recipe's {name} must be names with values.")
        settings = {
            name: tuple(value) if isinstance(value, list) else value for name, value in plain["settings"].items()
        }
        return cls(**{**plain, "settings": settings})


def with_options(method: Any, options: Mapping[str, float | str]) -> "Method":
    """Return a method with some of its settings replaced; of one with two players, the model's."""
    fields = {each.name for each in dataclasses.fields(method)}
    changes = {}
    for name, value in options.items():
        of_model = name if name in fields else f"{name}_x"
        if of_model not in fields:
            raise ValueError(
                f"{type(method).__name__} has no {name}. Leave that option out, or name a method that has it."
            )
        changes[of_model] = _times(getattr(method, of_model), value)
        if isinstance(changes[of_model], str):
            raise ValueError(
                f"{name} = {value!r}: {type(method).__name__} has no number there to multiply. Give a number in place "
                "of a factor."
            )
    return dataclasses.replace(method, **changes)


def _times(now: Any, value: float | str) -> float | str:
    """Return a value; of a factor, the product with what there is now, if that is a number. Counts stay counts."""
    if not isinstance(value, str) or type(now) not in (int, float) or not _FACTOR.fullmatch(value):
        return value
    times = now * float(value[1:])
    return max(1, round(times)) if isinstance(now, int) else times
