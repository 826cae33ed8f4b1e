"""What there is to say at the top of a report: does the promise hold, and what takes away from it."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

from gossamer.privacy import tradeoff, wording
from gossamer.privacy.budget import Budget
from gossamer.privacy.certificate import Certificate, Verification
from gossamer.privacy.tradeoff import TradeOff
from gossamer.report.markup import at_most, equation

_UNCONFIRMED = "NOT MET: what is marked below as read from the data is outside this guarantee."
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
    """What all that was asked allows: no more than that if the certificate holds; if not, what ε as recomputed does.

    Of a search, what (ε, δ) alone allows.
    """
    faults: tuple[str, ...]
    """Why the promise is worth nothing."""
    unmet: tuple[str, ...]
    """The assumptions that are known to be false."""
    reservations: tuple[str, ...]
    """What else the promise does not cover, or why it is weak."""
    exact: bool
    """Whether something was answered without noise."""


def judge(certificate: Certificate, unconfirmed: bool) -> Judgement:
    """Recompute a certificate and weigh it; `unconfirmed`: the schema has bounds that were read from the records."""
    budget = Budget(certificate.epsilon, certificate.delta, certificate.neighbors)
    verification = _verify(certificate)
    scheduled = _scheduled(certificate, budget, verification)
    return Judgement(
        verification,
        tradeoff.certified(budget),
        scheduled,
        tuple(_faults(certificate, budget, verification)),
        wording.unmet(certificate) or ((_UNCONFIRMED,) if unconfirmed else ()),
        reservations=tuple(_reservations(certificate, budget, scheduled)),
        exact=not all(query.noise_multiplier for query in certificate.schedule),
    )


def _verify(certificate: Certificate) -> Verification:
    try:
        return certificate.verify()
    except _BEYOND:
        told = "the schedule is beyond every accountant"
        return Verification(math.inf, f"none: {told}", (told,))


def _scheduled(certificate: Certificate, budget: Budget, verification: Verification) -> TradeOff:
    certified = tradeoff.certified(budget)
    if not verification:
        return tradeoff.certified(dataclasses.replace(budget, epsilon=verification.epsilon))
    if certificate.selection is not None:  # the schedule is that of one trial, and the others tell something too
        return certified
    try:
        schedule, n, capacities = certificate.schedule, certificate.n, certificate.capacities
        return tradeoff.scheduled(schedule, budget, n, capacities).together(certified)
    except _BEYOND:
        return certified


def _faults(certificate: Certificate, budget: Budget, verification: Verification) -> Iterator[str]:
    if not budget.is_private:
        yield "ε is infinite: NO PRIVACY is promised. No noise was added, and the model may reveal its records."
    yield from (f"The certificate DOES NOT HOLD: {told}." for told in verification.wrong)
    if certificate.reproducible:
        yield (
            "The noise was drawn from a fixed seed. Anyone who knows or guesses the seed can subtract the noise: this "
            "run is for tests only."
        )


def _reservations(certificate: Certificate, budget: Budget, scheduled: TradeOff) -> Iterator[str]:
    yield from wording.reservations(certificate)
    if not budget.is_private:
        return
    if certificate.delta * certificate.n >= 1:
        yield (
            f"{equation('δ', certificate.delta)} is not below {equation('1/n', 1 / certificate.n)}: publishing one "
            "random record in the clear would not break this promise."
        )
    if scheduled.even_odds() >= WEAK:
        yield (
            "The promise is weak: someone who has to choose between two possible records of one person may be right "
            f"{at_most(scheduled.even_odds())} of the time. A smaller ε protects better."
        )
