"""`gossamer verify`: recompute what a certificate says."""

import math
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli import shared


def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate in JSON, or the folder of a run.")],
    as_json: shared.AsJson = False,
) -> None:
    """Recompute a certificate's ε; exit code 1 if it does not hold."""
    from gossamer.runs.folder import load_certificate

    read = load_certificate(certificate)
    outcome = read.verify()
    content = {
        "holds": bool(outcome),
        "epsilon": number(read.epsilon),
        "recomputed_epsilon": number(outcome.epsilon),
        "delta": read.delta,
        "accountant": outcome.accountant,
        "leaks": leaks(read),
    }
    shared.say(as_json, content, verdict(read, outcome))
    if not outcome:
        raise typer.Exit(1)


def verdict(certificate: Any, outcome: Any) -> str:
    """Return the outcome of a recomputation in one line."""
    if not math.isfinite(certificate.epsilon):
        return "NO PRIVACY is claimed: the certificate says ε = inf"
    not_met = len(leaks(certificate))
    holds = f"holds, but {not_met} of its assumptions {'is' if not_met == 1 else 'are'} NOT MET" if not_met else "holds"
    return (
        f"{holds if outcome else 'DOES NOT HOLD'}: recomputed ε = {outcome.epsilon:.4g} at δ = {certificate.delta:g} "
        f"by {outcome.accountant}; the certificate says ε = {certificate.epsilon:g}"
    )


def leaks(certificate: Any) -> list[str]:
    """Return the assumptions of a certificate that are not met."""
    return [sentence for sentence in certificate.assumptions if sentence.startswith("NOT MET")]


def number(value: float) -> float | str:
    """Return a number as JSON can hold it."""
    return value if math.isfinite(value) else "inf"
