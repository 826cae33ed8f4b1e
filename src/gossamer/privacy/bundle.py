"""One file that binds a promise to a model, a table and the code that ran: put together here, checked elsewhere.

How a bundle is written, byte by byte, stands in one place, the checker (`gossamer_verify`), which is also a member of
the bundle. Equal contents give equal files: there are no times in it, and its order is fixed.
"""

import hashlib
import json
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import gossamer_verify
from gossamer.privacy.budget_file import BudgetFile
from gossamer.privacy.certificate import Certificate
from gossamer.privacy.statement import schema, statement


@dataclass(frozen=True)
class Contents:
    """What a bundle is made from."""

    certificate: Certificate
    model: bytes
    """The private numbers, as an npz file."""
    history: str
    """Public values of the training, as CSV."""
    report: str
    """For people: HTML."""
    description: Any = None
    """What the numbers of the model mean."""
    schema: Any = None
    """What is public about the table."""
    recipe: Any = None
    """What was to be done, in public words."""
    commitment: str | None = None
    """To the table; None: no table was given."""
    budget: dict[str, Any] | None = None
    """The place in a budget file's log; None: none was used."""
    audits: tuple[dict[str, Any], ...] = ()
    """What attacks on runs like this one achieved."""

    def packed(self) -> bytes:
        """Return the bundle."""
        members = {
            "certificate.json": self.certificate.to_json().encode(),
            "model.npz": self.model,
            "model.json": _json({"description": self.description, "sha256": hashlib.sha256(self.model).hexdigest()}),
            "schema.json": _json(self.schema),
            "recipe.json": _json(self.recipe),
            "history.csv": self.history.encode(),
            "code.json": _json({"code": code(), "software": {"versions": self.certificate.versions}}),
            "table.json": _json(self.commitment and {"commitment": self.commitment, "hash": "sha256, salted"}),
            "budget.json": _json(self.budget),
            "audits.json": _json(list(self.audits)),
            "statement.json": _json(statement(self.certificate, list(self.audits))),
            "statement.schema.json": schema(),
            "report.html": self.report.encode(),
            "gossamer_verify.py": Path(gossamer_verify.__file__).read_bytes(),
        }
        hashes = {name: hashlib.sha256(content).hexdigest() for name, content in members.items()}
        return gossamer_verify.pack({**members, "manifest.json": _json({"format": 1, "members": hashes})})


def code() -> dict[str, str]:
    """Return which code runs here: the version, and one hash over all source files of the package, by their names."""
    package = Path(__file__).parents[1]
    tree = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        tree.update(f"{path.relative_to(package).as_posix()}\0".encode())
        tree.update(hashlib.sha256(path.read_bytes()).digest())
    return {"gossamer": metadata.version("gossamer"), "tree_sha256": tree.hexdigest()}


def place_in_log(file: BudgetFile, reservation: int) -> dict[str, Any]:
    """Return what a bundle says of a reservation: its amount, what was granted, and how much was taken with it."""
    taken = [entry for entry in file.entries() if entry.id <= reservation]
    grant, own = file.grant(), taken[-1]
    if own.id != reservation:
        raise ValueError(f"{file.path} has no reservation {reservation}.")
    together = type(own.amount)().plus(entry.amount for entry in taken)
    return {
        "reservation": reservation,
        "amount": {name: str(value) for name, value in own.amount._asdict().items()},
        "taken": {name: str(value) for name, value in together._asdict().items()},
        "granted": {"epsilon": float(grant.amount.epsilon), "delta": float(grant.amount.delta)},
        "neighbors": grant.neighbors,
    }


def _json(value: Any) -> bytes:
    return (json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode()
