"""What there is to say at the top of a report: does the promise hold, and what takes away from it."""

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass

from gossamer import tradeoff
from gossamer.budget import Budget
from gossamer.certificate import Certificate, Verification
from gossamer.report.markup import at_most, equation
from gossamer.tradeoff import TradeOff

_ENTROPY = "entropy of the operating system"
_NOT_MET = "NOT MET"
_RESERVED = (_NOT_MET, "Non-private diagnostics")
WEAK = 0.9
"""A promise is weak that lets an attacker be right so often."""
_BEYOND = (ArithmeticError, LookupError, MemoryError, ValueError)
"""What accountants raise at numbers that no calibration would choose."""


@dataclass(frozen=True)
class Judgement:
    """A certificate, recomputed and weighed."""

    verification: Verification
    certified: TradeOff
    """What (ε, δ) alone allows an attacker."""
    scheduled: TradeOff
    """What all that was asked allows: no more than that if the certificate holds; if not, what ε as recomputed does."""
    faults: tuple[str, ...]
    """Why the promise is worth nothing."""
    reservations: tuple[str, ...]
    """What it does not cover, or why it is weak."""
    exact: bool
    """Whether something was answered without noise."""

    @property
    def unmet(self) -> tuple[str, ...]:
        """The assumptions that are not met, one sentence each."""
        return tuple(sentence for sentence in self.reservations if sentence.startswith(_NOT_MET))


def judge(certificate: Certificate, leaks: Iterable[str]) -> Judgement:
    """Recompute a certificate and weigh it, with what the data's schema says about leaks."""
    budget = Budget(certificate.epsilon, certificate.delta, certificate.neighbors)
    verification = _verify(certificate)
    scheduled = _scheduled(certificate, budget, verification)
    return Judgement(
        verification,
        tradeoff.certified(budget),
        scheduled,
        tuple(_faults(certificate, budget, verification)),
        tuple(_reservations(certificate, budget, scheduled, leaks)),
        exact=not all(query.noise_multiplier for query in certificate.schedule),
    )


def _verify(certificate: Certificate) -> Verification:
    try:
        return certificate.verify()
    except _BEYOND:
        return Verification(False, math.inf, "no accountant: the schedule is beyond all of them")


def _scheduled(certificate: Certificate, budget: Budget, verification: Verification) -> TradeOff:
    certified = tradeoff.certified(budget)
    if not verification:
        return tradeoff.certified(dataclasses.replace(budget, epsilon=verification.epsilon))
    try:
        schedule, n, capacities = certificate.schedule, certificate.n, certificate.capacities
        return tradeoff.scheduled(schedule, budget, n, capacities).together(certified)
    except _BEYOND:
        return certified


def _faults(certificate: Certificate, budget: Budget, verification: Verification) -> Iterable[str]:
    if not budget.is_private:
        yield "ε is infinite: NO PRIVACY is promised. No noise was added, and the model may reveal its records."
    if not verification:
        yield (
            f"The certificate DOES NOT HOLD: it states {equation('ε', certificate.epsilon)}, and what was asked of "
            f"the data costs {equation('ε', verification.epsilon)}."
        )
    if certificate.seed != _ENTROPY:
        yield (
            f"The randomness is {certificate.seed}. Whoever knows or guesses the seed can subtract the noise: this run "
            "is fit for tests only."
        )


def _reservations(certificate: Certificate, budget: Budget, scheduled: TradeOff, leaks: Iterable[str]) -> Iterable[str]:
    sentences = [sentence for sentence in certificate.assumptions if sentence.startswith(_RESERVED)]
    yield from dict.fromkeys([*sentences, *leaks])
    if not budget.is_private:
        return
    if certificate.delta * certificate.n >= 1:
        yield (
            f"{equation('δ', certificate.delta)} is not below {equation('1/n', 1 / certificate.n)}: giving away one "
            "random record would keep this promise."
        )
    if scheduled.even_odds() >= WEAK:
        yield (
            "The promise is weak: someone who wavers between two possibilities for one person may be right "
            f"{at_most(scheduled.even_odds())} of the time. A smaller ε protects better."
        )
