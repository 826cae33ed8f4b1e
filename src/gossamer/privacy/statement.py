"""What a certificate states, for programs that read many such statements: JSON, by a published JSON Schema.

The headings follow those under which NIST SP 800-226, *Guidelines for Evaluating Differential Privacy Guarantees*
(2025), asks its questions: the guarantee with its parameters and its unit, the mechanism and its accounting, what is
known of utility, the trust model, side channels, and how the data was come by. Nothing here is new: the numbers are the
certificate's own, and the checker compares them.
"""

import json
from importlib import resources
from typing import Any

from gossamer.privacy import wording
from gossamer.privacy.certificate import Certificate


def schema() -> bytes:
    """Return the JSON Schema of statements."""
    return resources.files("gossamer.privacy").joinpath("statement.schema.json").read_bytes()


def statement(certificate: Certificate, audits: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a certificate states, under the headings of the evaluation."""
    facts = json.loads(certificate.to_json())

    def some(*names: str) -> dict[str, Any]:
        return {name: facts[name] for name in names}

    return {
        "format": 1,
        "guarantee": {
            "variant": "(epsilon, delta)-differential privacy",
            **some("epsilon", "delta", "neighbors", "unit", "covers"),
            "conditions": list(wording.conditions(certificate)),
            "not_met": list(wording.unmet(certificate)),
        },
        "mechanism": {
            "noise": "Gaussian, rounded to whole numbers of a lattice",
            "accounting": "privacy loss distributions; recomputed by a second accountant",
            **some("method", "schedule", "truncation_delta"),
        },
        "utility": {"stated": False, "why": "How well the model predicts is not part of this evidence."},
        "trust_model": {
            "model": "central: one trusted party holds the records and adds the noise",
            "reproducible_noise": certificate.reproducible,
            "diagnostics_looked_at": certificate.diagnostics,
            "trusted_code": list(certificate.trusted),
        },
        "side_channels": {
            "floating_point": certificate.covers == "bits",
            "timing": False,
            "memory": False,
            "why": "If floating_point is true, the promise is about released bits. Times and memory are not covered.",
        },
        "data": {**some("n", "leaks"), "n_is_public": True},
        "audits": audits,
    }
