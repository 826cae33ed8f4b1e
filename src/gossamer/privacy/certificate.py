"""What was promised, what was asked of the data, and under which assumptions."""

import dataclasses
import math
import platform
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from typing import Any, get_args

from gossamer.base.leak import Leak
from gossamer.privacy import accounting, arithmetic, certificate_files, saddle_point, searching, wording
from gossamer.privacy.budget import Budget, Neighbors
from gossamer.privacy.facts import Bought, Covers, LossBounds, Unit
from gossamer.privacy.planning import Plan
from gossamer.privacy.schedule import Schedule
from gossamer.privacy.searching import Selection
from gossamer.privacy.stages import check_blocks, leading_cost

_ROUNDING = 1e-6
"""How far two computations of the same sum may be apart, relatively."""
_UNSEEN = accounting.SMALLEST_DELTA * _ROUNDING
"""A δ that no other number on a certificate shows. 0.1 did not state what sampling tables cost, which is less now."""
_DEEPEST = 20
"""Descriptions of methods and problems nest a few levels; a file that goes deeper was made to break its readers."""


@dataclass(frozen=True)
class Verification:
    """The outcome of recomputing what a certificate states; true when the certificate holds."""

    epsilon: float
    """The recomputed ε at the certificate's δ."""
    accountant: str
    wrong: tuple[str, ...] = ()
    """What is false on the certificate, a sentence each."""

    @property
    def ok(self) -> bool:
        """Whether the certificate holds."""
        return not self.wrong

    def __bool__(self) -> bool:
        return self.ok


@dataclass(frozen=True)
class Certificate:
    """The statement of privacy that comes with a result.

    It states the cost of the schedule, all of it, even if a run stopped early: stopping because of private
    outputs does not entitle anyone to a smaller ε. `verify` recomputes every number of it that can be recomputed; that
    the noise was drawn, how, and by which software are statements of whoever wrote it.
    """

    epsilon: float
    delta: float
    neighbors: Neighbors
    n: int
    unit: Unit
    """Whose data neighbouring tables differ in."""
    covers: Covers
    """Whether the promise is about the bits that are released, or about real numbers."""
    schedule: Schedule
    """Every query that could be asked, with its noise multiplier and its clip rule."""
    purchases: tuple[Bought, ...]
    """Which of the queries were asked before the training, to set it up, or after it, and with which share."""
    selection: Selection | None
    """How the best of several runs was chosen; None: there was one run."""
    capacities: dict[str, int]
    """The static size at which each Poisson query's samples are cut."""
    truncation_delta: float
    """The part of δ that pays for it."""
    leaks: tuple[Leak, ...]
    """What was read from the records outside the guarantee."""
    reproducible: bool
    """Whether the seed of the noise was fixed."""
    diagnostics: bool
    """Whether non-private values were looked at."""
    trusted: tuple[str, ...]
    """The reasons for which parts of the loss were not checked, as `gs.trusted` was given them."""
    loss_bounds: LossBounds | None
    """What the guarantee of a perturbed minimiser rests on."""
    noted: tuple[str, ...]
    """Sentences of an old certificate that no field has a place for."""
    method: str
    configuration: dict[str, Any]
    problem: dict[str, Any]
    versions: dict[str, str]

    @property
    def is_private(self) -> bool:
        """Whether anything is promised: ε is finite."""
        return math.isfinite(self.epsilon)

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What must be true for the promise to hold, and what is known to be false: sentences made from the facts."""
        return (*wording.conditions(self), *wording.reservations(self), *wording.unmet(self))

    @property
    def seed(self) -> str:
        """Where the noise came from, in words."""
        return wording.randomness(self.reproducible)

    def verify(self, tolerance: float = 0.01) -> Verification:
        """Recompute ε from the schedule with an accountant that calibration did not rely on.

        The contour integral of `gossamer.privacy.saddle_point` is exact and shares no code with the PLD accountant that
        chose the noise. Where it does not converge (a handful of queries at a tiny rate), PLD itself is run again.
        The certificate holds when the recomputed ε exceeds its own by at most `tolerance`, relatively, when the same is
        true of everything that was bought, and when `truncation_delta` is what the capacities cost.
        """
        if not self.is_private:
            return Verification(math.inf, "none: no privacy is claimed")
        try:
            if self.selection is None:
                epsilon, accountant = self._cost(self.schedule, Budget(self.epsilon, self.delta))
            else:
                epsilon, accountant = self._cost_of_search(self.selection), "contour integral"
            return Verification(epsilon, accountant, tuple(self._wrong(epsilon, tolerance)))
        # What a schedule that no run writes meets on its way through the accountants; each says what it met.
        except (ArithmeticError, ValueError) as error:
            return Verification(math.inf, f"none: {error}", (f"ε cannot be recomputed: {error}",))

    def _cost(self, schedule: Schedule, budget: Budget) -> tuple[float, str]:
        """Return ε of some of the queries at the δ of a budget, and who recomputed it."""
        schedule.check(self.n, self.neighbors)
        if self.covers == "reals":  # where the promise is not about bits, rounding is not paid for
            noise = [query.calibrated_noise() * (1 + arithmetic.INFLATION) for query in schedule]
            schedule = schedule.with_noise(tuple(noise))
        delta = budget.delta - accounting.truncation(schedule, self.n, self.capacities, budget.epsilon)
        if delta <= 0:
            return math.inf, "none: truncated samples alone cost more than delta"
        costs = accounting.costs_of(schedule, self.neighbors)
        if accounting.is_hopeless(costs, self.neighbors):
            return math.inf, "none: the noise is too small to protect anybody"
        extra = schedule.surcharge(self.neighbors)
        try:
            return extra.epsilon + saddle_point.epsilon(costs, delta / extra.factor, self.neighbors), "contour integral"
        except saddle_point.DidNotConvergeError:
            return accounting.pld_epsilon(schedule, delta, self.neighbors), "privacy loss distribution"

    def _cost_of_search(self, selection: Selection) -> float:
        """Return ε of the whole search; the run that was released must be one that it could make."""
        for schedule in selection.schedules:
            schedule.check(self.n, self.neighbors)
        runs = [(each.wordless(), sizes) for each, sizes in zip(selection.schedules, selection.capacities, strict=True)]
        if (self.schedule.wordless(), self.capacities) not in runs:
            raise ValueError("the schedule of the run that was released is not among those of the selection.")
        budget = Budget(self.epsilon, self.delta, self.neighbors)
        return searching.recomputed_epsilon(selection, budget, self.n)

    def _wrong(self, epsilon: float, tolerance: float) -> Iterator[str]:
        """Say which numbers are not what they come out as."""
        if not epsilon <= self.epsilon * (1 + tolerance):
            yield f"it states ε = {self.epsilon:g}, and what was asked of the data costs ε = {epsilon:.4g}"
        yield from self._wrong_shares(tolerance)
        apart = [bought.apart for bought in self.purchases if bought.apart is not None]
        left = self.epsilon - math.fsum(epsilon for epsilon, _ in apart)
        if left <= 0 or math.fsum(delta for _, delta in apart) >= self.delta:
            yield "what was bought before the training leaves nothing of ε or δ for it"
            return
        if self.selection is None:
            cut = accounting.truncation(self.schedule, self.n, self.capacities, left)
        else:
            cut = self.selection.truncation(self.n, left)
        if not math.isclose(cut, self.truncation_delta, rel_tol=_ROUNDING, abs_tol=_UNSEEN):
            yield (
                f"it states truncation_delta = {self.truncation_delta:.4g}, and cutting samples at its capacities "
                f"costs {cut:.4g}"
            )

    def _wrong_shares(self, tolerance: float) -> Iterator[str]:
        """Say which purchases had another part of the cost than they state."""
        for bought in self.purchases:
            own = Schedule(tuple(self.schedule[name] for name in bought.queries))
            if bought.apart is None:
                share = leading_cost(own) / leading_cost(self.schedule)
                if not math.isclose(share, bought.share, rel_tol=tolerance):
                    yield f"it states that {bought.name!r} had {bought.share:.4g} of the cost, and it had {share:.4g}"
                continue
            epsilon, delta = bought.apart
            cost, _ = self._cost(own, Budget(epsilon, delta))
            if not cost <= epsilon * (1 + tolerance):
                yield f"it states ε = {epsilon:g} for the answer {bought.name!r}, which costs ε = {cost:.4g}"

    def to_json(self) -> str:
        """Return the certificate as JSON; `from_json` reads it back."""
        return certificate_files.write({f.name: getattr(self, f.name) for f in dataclasses.fields(self)})

    @classmethod
    def from_json(cls, text: str) -> "Certificate":
        """Read a certificate written by `to_json`, by this version or by 0.1."""
        try:
            certificate = cls(**certificate_files.read(text, {f.name for f in dataclasses.fields(cls)}))
            _check(certificate)
        # Whatever a file of another shape meets on its way into the classes; each says what it met.
        except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
            raise ValueError(f"not a certificate: {error}") from error
        return certificate

    def __str__(self) -> str:
        lines = [
            f"({self.epsilon:g}, {self.delta:g})-differential privacy, neighbors = {self.neighbors}, n = {self.n}",
            f"method: {self.method}({', '.join(f'{k}={wording.code(v)}' for k, v in self.configuration.items())})",
            "asked of the data:",
            *(
                f"  {query.name}: {query.count} times, of {query.sampling}; "
                f"noise multiplier {query.noise_multiplier:.4g}, clip {query.clip}"
                for query in self.schedule
            ),
            "assumptions:",
            *(f"  - {sentence}" for sentence in self.assumptions),
            f"randomness: {self.seed}",
        ]
        return "\n".join(lines)


def certify(
    plan: Plan,
    problem: Any,
    seed: int | None,
    diagnostics: bool,
    trusted: tuple[str, ...] = (),
    loss_bounds: LossBounds | None = None,
    purchases: tuple[Bought, ...] = (),
    unit: Unit = Unit("row"),  # noqa: B008  (frozen)
) -> Certificate:
    """Write the certificate of a plan: it is known before the first query.

    Args:
      plan: what will be asked.
      problem: what is minimised.
      seed: None if the noise comes from the entropy of the operating system.
      diagnostics: whether non-private values will be looked at.
      trusted: the reasons for which parts of the loss were not checked.
      loss_bounds: what the guarantee of a perturbed minimiser rests on.
      purchases: which of the queries are not the method's own.
      unit: whose data neighbouring tables differ in.
    """
    return Certificate(
        epsilon=float(plan.budget.epsilon),
        delta=float(plan.budget.delta),
        neighbors=plan.budget.neighbors,
        n=plan.n,
        unit=unit,
        covers="reals" if _is_mixed(plan.schedule) else "bits",
        schedule=plan.schedule,
        purchases=purchases,
        selection=None,
        capacities=dict(plan.capacities),
        truncation_delta=plan.truncation_delta,
        leaks=(),
        reproducible=seed is not None,
        diagnostics=diagnostics,
        trusted=trusted,
        loss_bounds=loss_bounds,
        noted=(),
        method=type(plan.method).__name__,
        configuration={name: value for name, value in _described(plan.method).items() if name != "kind"},
        problem=_described(problem),
        versions=_versions(),
    )


def _is_mixed(schedule: Schedule) -> bool:
    """Whether noise is mixed in floating point: of all streams, only those of a tree are whole numbers."""
    return any(q.sampling.stream is not None and q.sampling.stream.strategy != "tree" for q in schedule)


_PLAIN = (bool, int, str, type(None))


def _described(value: Any) -> Any:
    """Return a setting as JSON holds it: objects by their kind and their fields, functions by their names."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, tuple | list):
        return [_described(part) for part in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        settings = value.certified_settings() if hasattr(value, "certified_settings") else fields
        return {"kind": type(value).__name__, **{name: _described(part) for name, part in settings.items()}}
    return getattr(value, "__qualname__", type(value).__name__)


def _check(certificate: Certificate) -> None:
    """Refuse a certificate that was edited or made up into something that no run writes."""
    Budget(certificate.epsilon, certificate.delta, certificate.neighbors)
    kinds: dict[str, Any] = {
        "n": int,
        "method": str,
        **dict.fromkeys(("reproducible", "diagnostics"), bool),
        **dict.fromkeys(("capacities", "configuration", "problem", "versions"), dict),
    }
    for name, kind in kinds.items():
        if type(getattr(certificate, name)) is not kind:
            raise TypeError(f"{name} must be of type {kind.__name__}.")
    if certificate.covers not in get_args(Covers) or (certificate.covers == "bits" and _is_mixed(certificate.schedule)):
        raise ValueError("covers must be 'bits' or 'reals', and for correlated noise other than a tree's 'reals'.")
    if not all(type(size) is int and 1 <= size < 2**63 for size in (certificate.n, *certificate.capacities.values())):
        raise ValueError("n and the capacities must be whole numbers of at least 1, and n below 2⁶³.")
    if not certificate.schedule.queries:
        raise ValueError("the schedule has no queries.")
    if set(certificate.capacities) != {q.name for q in certificate.schedule if q.sampling.has_capacity}:
        raise ValueError("there must be a capacity for every query of a Poisson sample, and for no other.")
    numbers: list[Any] = [certificate.truncation_delta, *(query.noise_multiplier for query in certificate.schedule)]
    if not all(type(value) in (int, float) and 0 <= value < math.inf for value in numbers):
        raise ValueError("truncation_delta and the noise multipliers must be finite numbers of at least 0.")
    texts = [text for query in certificate.schedule for text in (query.name, query.clip)]
    texts += [*certificate.trusted, *certificate.noted, *certificate.versions.values()]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("trusted, noted, versions, and names and clips of queries must be texts.")
    if not all(type(flag) is bool for query in certificate.schedule for flag in (query.dual, query.acute)):
        raise TypeError("dual and acute must be true or false.")
    bought = [name for each in certificate.purchases for name in each.queries]
    left = [query for query in certificate.schedule if query.name not in bought]
    if len(set(bought)) < len(bought) or len(bought) + len(left) != len(certificate.schedule.queries):
        raise ValueError("every purchase must be of queries of the schedule, and each of others.")
    own = [[certificate.schedule[name] for name in each.queries] for each in certificate.purchases]
    check_blocks([left, *own])
    for name in ("configuration", "problem"):
        if not _is_shallow(getattr(certificate, name), _DEEPEST):
            raise ValueError(f"{name} is nested more than {_DEEPEST} levels deep.")


def _is_shallow(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_shallow(part, levels - 1) for part in inner)


def _versions() -> dict[str, str]:
    packages = ("gossamer", "jax", "jaxlib", "dp-accounting", "numpy")
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in packages}}
