"""`gossamer verify`: recompute what a certificate says."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli import shared
from gossamer.cli.mistakes import sentence

if TYPE_CHECKING:
    from gossamer.privacy.certificate import Certificate, Verification

FALSE, NOT_MET, DAMAGED = 1, 2, 3
"""Exit codes; 0: the certificate holds, and nothing is known to be wrong with its assumptions."""


def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate in JSON, or the folder of a run.")],
    as_json: shared.AsJson = False,
) -> None:
    """Recompute what a certificate states.

    Exit code 0: it holds. 1: it is false. 2: it holds, but some of its assumptions are not met. 3: it cannot be read.
    """
    from gossamer.runs.folder import load_certificate

    try:
        read = load_certificate(certificate)
    except (OSError, ValueError) as error:
        typer.echo(f"gossamer: {sentence(error)}", err=True)
        raise typer.Exit(DAMAGED) from None
    outcome = read.verify()
    content = {
        "holds": bool(outcome),
        "epsilon": number(read.epsilon),
        "recomputed_epsilon": number(outcome.epsilon),
        "delta": read.delta,
        "accountant": outcome.accountant,
        "wrong": list(outcome.wrong),
        "leaks": leaks(read),
        "stated": {"unit": str(read.unit), "reproducible": read.reproducible, "versions": read.versions},
    }
    shared.say(as_json, content, verdict(read, outcome))
    if not outcome:
        raise typer.Exit(FALSE)
    if read.leaks:
        raise typer.Exit(NOT_MET)


def verdict(certificate: "Certificate", outcome: "Verification") -> str:
    """Return the outcome of a recomputation in one line."""
    if not certificate.is_private:
        return "NO PRIVACY is claimed: the certificate says ε = inf"
    not_met = len(certificate.leaks)
    holds = f"holds, but {not_met} of its assumptions {'is' if not_met == 1 else 'are'} NOT MET" if not_met else "holds"
    line = (
        f"{holds if outcome else 'DOES NOT HOLD'}: recomputed ε = {outcome.epsilon:.4g} at δ = {certificate.delta:g} "
        f"by {outcome.accountant}; the certificate says ε = {certificate.epsilon:g}"
    )
    return "; ".join([line, *outcome.wrong])


def leaks(certificate: "Certificate") -> list[str]:
    """Return the assumptions of a certificate that are not met."""
    from gossamer.privacy import wording

    return list(wording.unmet(certificate))


def number(value: float) -> float | str:
    """Return a number as JSON can hold it."""
    return value if math.isfinite(value) else "inf"
