"""Divergences in words, as a command line or a file writes them."""

import dataclasses
from typing import Any

from gossamer import objectives

_KINDS: dict[str, Any] = {
    "chi-square": objectives.ChiSquare,
    "kl": objectives.KL,
    "kl-cvar": objectives.KLCVaR,
    "cressie-read": objectives.CressieRead,
}


def parse_divergence(text: str) -> objectives.Divergence:
    """Return the divergence that a word means: "chi-square", "kl", "kl-cvar:ALPHA" or "cressie-read:K"."""
    name, *rest = text.split(":")
    try:
        parameters = [float(each) for each in rest]
        understood = len(parameters) == len(dataclasses.fields(_KINDS[name]))
    except (KeyError, ValueError):
        understood = False
    if not understood:
        raise ValueError(
            f"divergence = {text!r} must be chi-square, kl, kl-cvar:ALPHA such as kl-cvar:0.1, or cressie-read:K such "
            "as cressie-read:3."
        )
    return _KINDS[name](*parameters)
