"""What was promised, what was asked of the data, and under which assumptions."""

import dataclasses
import json
import math
import platform
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

from gossamer import accounting, contour, perturbed
from gossamer.budget import Budget, Neighbors
from gossamer.planning import Plan
from gossamer.schedule import Schedule

_FORMAT = 1
_MEANING = {
    "replace_one": "Two tables are neighbours when they have the same number of records and differ in one of them.",
    "add_remove": "Two tables are neighbours when one has a record in a row where the other has none; n, which answers "
    "are divided by, is the same public number for both.",
}


@dataclass(frozen=True)
class Verification:
    """The outcome of recomputing a certificate's ε; true when the certificate holds."""

    ok: bool
    epsilon: float
    """The recomputed ε at the certificate's δ."""
    accountant: str

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True)
class Certificate:
    """The statement of privacy that comes with a result.

    It states the cost of the schedule, all of it, even if a run stopped early: stopping because of private
    outputs does not entitle anyone to a smaller ε.
    """

    epsilon: float
    delta: float
    neighbors: Neighbors
    n: int
    schedule: Schedule
    """Every query that could be asked, with its noise multiplier and its clip rule."""
    capacities: dict[str, int]
    """The static size at which each Poisson query's samples are cut."""
    truncation_delta: float
    """The part of δ that pays for it."""
    method: str
    configuration: dict[str, Any]
    problem: dict[str, str]
    assumptions: tuple[str, ...]
    seed: str
    """Where the randomness came from."""
    versions: dict[str, str] = field(default_factory=dict)

    def verify(self, tolerance: float = 0.01) -> Verification:
        """Recompute ε from the schedule with an accountant that calibration did not rely on.

        The contour integral of `gossamer.contour` is exact and shares no code with the PLD accountant that chose
        the noise. Where it does not converge (a handful of queries at a tiny rate), PLD itself is run again.
        The certificate holds when the recomputed ε exceeds its own by at most `tolerance`, relatively.
        """
        if not math.isfinite(self.epsilon):
            return Verification(True, math.inf, "none: no privacy is claimed")
        try:
            epsilon, accountant = self._recomputed()
        # What a schedule that no run writes meets on its way through the accountants; each says what it met.
        except (ArithmeticError, ValueError) as error:
            return Verification(False, math.inf, f"none: {error}")
        return Verification(epsilon <= self.epsilon * (1 + tolerance), epsilon, accountant)

    def _recomputed(self) -> tuple[float, str]:
        """Return ε and who recomputed it."""
        accounting.check_blocks(self.schedule, self.n, self.neighbors)
        delta = self.delta - accounting.truncation(self.schedule, self.n, self.capacities, self.epsilon)
        if delta <= 0:
            return math.inf, "none: truncated samples alone cost more than delta"
        costs = accounting.costs_of(self.schedule)
        if accounting.is_hopeless(costs, self.neighbors):
            return math.inf, "none: the noise is too small to protect anybody"
        extra = perturbed.surcharge(self.schedule, self.neighbors)
        try:
            return extra.epsilon + contour.epsilon(costs, delta / extra.factor, self.neighbors), "contour integral"
        except contour.DidNotConvergeError:
            return accounting.pld_epsilon(self.schedule, delta, self.neighbors), "privacy loss distribution"

    def to_json(self) -> str:
        """Return the certificate as JSON; `from_json` reads it back."""
        content = {
            "format": _FORMAT,
            **{f.name: getattr(self, f.name) for f in dataclasses.fields(self)},
            "epsilon": self.epsilon if math.isfinite(self.epsilon) else "inf",
            "schedule": self.schedule.to_dicts(),
        }
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate written by `to_json`."""
        try:
            content = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"not a certificate: {error}") from error
        if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
            raise ValueError(f"not a certificate of format {_FORMAT}. Was it written by another version of Gossamer?")
        expected = {f.name for f in dataclasses.fields(cls)}
        if set(content) != expected:
            raise ValueError(f"not a certificate: its fields differ by {sorted(expected ^ set(content))}.")
        try:
            certificate = cls(
                **{
                    **content,
                    "epsilon": float(content["epsilon"]),
                    "schedule": Schedule.from_dicts(content["schedule"]),
                    "assumptions": tuple(content["assumptions"]),
                }
            )
            _check(certificate)
        # Whatever a file of another shape meets on its way into the classes; each says what it met.
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ValueError(f"not a certificate: {error}") from error
        return certificate

    def __str__(self) -> str:
        lines = [
            f"({self.epsilon:g}, {self.delta:g})-differential privacy, neighbors = {self.neighbors}, n = {self.n}",
            f"method: {self.method}({', '.join(f'{k}={v}' for k, v in self.configuration.items())})",
            "asked of the data:",
            *(
                f"  {query.name}: {query.count} times, {query.sampling} sampling at rate {query.rate:.4g}, "
                f"noise multiplier {query.noise_multiplier:.4g}, clip {query.clip}"
                for query in self.schedule
            ),
            "assumptions:",
            *(f"  - {sentence}" for sentence in self.assumptions),
            f"randomness: {self.seed}",
        ]
        return "\n".join(lines)


def certify(plan: Plan, problem: Any, seed: int | None, diagnostics: bool) -> Certificate:
    """Write the certificate of a plan: it is known before the first query."""
    return Certificate(
        epsilon=float(plan.budget.epsilon),
        delta=float(plan.budget.delta),
        neighbors=plan.budget.neighbors,
        n=plan.n,
        schedule=plan.schedule,
        capacities=dict(plan.capacities),
        truncation_delta=plan.truncation_delta,
        method=type(plan.method).__name__,
        configuration=_describe(plan.method),
        problem={"kind": type(problem).__name__, **{k: str(v) for k, v in _describe(problem).items()}},
        assumptions=(*_assumptions(plan, seed, diagnostics), *problem.assumptions),
        seed="entropy of the operating system" if seed is None else "a fixed seed: the noise is reproducible",
        versions=_versions(),
    )


def _assumptions(plan: Plan, seed: int | None, diagnostics: bool) -> tuple[str, ...]:
    sentences = [_MEANING[plan.budget.neighbors]]
    sentences += [
        "Each record is one row: a person with several rows is protected only as far as group privacy goes.",
        "The number of records n is public.",
        "The loss, the starting point and all hyper-parameters were chosen without looking at these records.",
        "Noise is drawn in float32 from a pseudo-random generator; an attacker cannot break the generator and does "
        "not exploit the gaps between floating-point numbers.",
        "The attacker sees the result and everything public about the run, but neither memory nor running times.",
    ]
    if plan.truncation_delta > 0:
        sentences.append(
            f"Poisson samples are cut at a static size; the {plan.truncation_delta:.2g} that this may cost is part "
            "of delta."
        )
    if not plan.budget.is_private:
        sentences.append("epsilon is infinite: NO PRIVACY is promised.")
    if seed is not None:
        sentences.append(
            "The seed was fixed: whoever knows or guesses it can subtract the noise. Use it for tests only."
        )
    if diagnostics:
        sentences.append("Non-private diagnostics were computed and looked at: they are outside this guarantee.")
    return tuple(sentences)


def _describe(configuration: Any) -> dict[str, Any]:
    """Return a frozen configuration as plain values, functions by their names."""
    values = {f.name: getattr(configuration, f.name) for f in dataclasses.fields(configuration)}
    return {name: value if isinstance(value, _PLAIN) else _name(value) for name, value in values.items()}


_PLAIN = (bool, int, float, str, type(None))


def _check(certificate: Certificate) -> None:
    """Refuse a certificate that was edited or made up into something that no run writes."""
    Budget(certificate.epsilon, certificate.delta, certificate.neighbors)
    kinds: dict[str, Any] = {
        "n": int,
        **dict.fromkeys(("method", "seed"), str),
        **dict.fromkeys(("capacities", "configuration", "problem", "versions"), dict),
    }
    for name, kind in kinds.items():
        if type(getattr(certificate, name)) is not kind:
            raise TypeError(f"{name} must be of type {kind.__name__}.")
    if not all(type(size) is int and 1 <= size < 2**63 for size in (certificate.n, *certificate.capacities.values())):
        raise ValueError("n and the capacities must be whole numbers of at least 1, and n below 2⁶³.")
    if not certificate.schedule.queries:
        raise ValueError("the schedule has no queries.")
    if set(certificate.capacities) != {q.name for q in certificate.schedule if q.sampling == "poisson"}:
        raise ValueError("there must be a capacity for every query of a Poisson sample, and for no other.")
    numbers: list[Any] = [certificate.truncation_delta, *(query.noise_multiplier for query in certificate.schedule)]
    if not all(type(value) in (int, float) and 0 <= value < math.inf for value in numbers):
        raise ValueError("truncation_delta and the noise multipliers must be finite numbers of at least 0.")
    texts = [*certificate.assumptions, *(text for query in certificate.schedule for text in (query.name, query.clip))]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("assumptions, names and clips of queries must be texts.")


def _name(value: Any) -> str:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = ", ".join(f"{k}={v}" for k, v in _describe(value).items())
        return f"{type(value).__name__}({inner})"
    if isinstance(value, tuple):
        return f"({', '.join(str(v) if isinstance(v, _PLAIN) else _name(v) for v in value)})"
    return getattr(value, "__qualname__", type(value).__name__)


def _versions() -> dict[str, str]:
    packages = ("gossamer", "jax", "jaxlib", "dp-accounting", "numpy")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
