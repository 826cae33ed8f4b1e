"""Bundles of evidence from what a run returned, from a fitted estimator, or from the folder of a run."""

import dataclasses
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from gossamer.base import atomic
from gossamer.engine.checkpoints import digest_records
from gossamer.methods.result import Result
from gossamer.privacy.budget_file import BudgetFile, fingerprint
from gossamer.privacy.bundle import Contents, place_in_log
from gossamer.privacy.certificate import Certificate
from gossamer.privacy.commitment import Opening, commit
from gossamer.report import render
from gossamer.runs.folder import history_text, load_certificate, require_finished
from gossamer.tables.table import Table

BUNDLE = "bundle.zip"
"""Its name in the folder of a run."""


def bundle(
    result: Any, path: Path | str, *, table: Any = None, audits: Sequence[Mapping[str, Any]] = (), recipe: Any = None
) -> Path | None:
    """Write one file that binds model, certificate, code and table together, for `gossamer-verify`.

    Args:
      result: what `gs.solve` returned, a fitted estimator, or the folder of a run of `gossamer fit`.
      path: where to write the bundle; a file that exists is left alone.
      table: the records, as arrays or as the path of their file, to commit to. The commitment reveals nothing; its salt
        goes into a second file beside the bundle, which is the owner's secret. None: the bundle names no table.
      audits: what attacks achieved, as `gossamer audit run` says it.
      recipe: what was to be done, in public words that JSON can hold.

    Returns:
      The file with the salt, for `gossamer prove-table`; None without a table.

    Example:
      >>> import gossamer as gs, jax.numpy as jnp, pathlib, tempfile
      >>> data = jnp.ones((100, 3)), jnp.ones(100)
      >>> start = {"weights": jnp.zeros(3), "intercept": jnp.zeros(())}
      >>> method, budget = gs.methods.GD(steps=5), gs.Budget(1.0, 1e-5)
      >>> result = gs.solve(gs.ERM(gs.objectives.logistic), data, method, budget, init=start)
      >>> folder = pathlib.Path(tempfile.mkdtemp())
      >>> opening = gs.bundle(result, folder / "evidence.zip", table=data)
      >>> opening.suffix
      '.opening'
    """
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{path} exists and is left alone. Choose another name.")
    contents = dataclasses.replace(_contents(result), audits=tuple(map(dict, audits)))
    if recipe is not None:
        contents = dataclasses.replace(contents, recipe=recipe)
    opening = None if table is None else commit(_digest(table))
    return write(path, contents, opening, path)


def write(path: Path, contents: Contents, opening: Opening | None, beside: Path) -> Path | None:
    """Write a bundle, and the opening of its commitment under a name that begins like `beside`; return the latter."""
    secret = None
    if opening is not None:
        contents = dataclasses.replace(contents, commitment=opening.commitment)
        secret = beside.with_name(f"{beside.stem}.{opening.commitment[:8]}.opening")
        opening.write(secret)
    atomic.write_bytes(path, contents.packed())
    return secret


def write_bundle(folder: Path, table: Table, reservation: tuple[Path, int] | None) -> Path | None:
    """Write the bundle of a finished run into its folder, and return where the opening went: beside the folder.

    What is in the folder may be given away, and the opening may not. A table that was not read from a file has none.
    """
    contents = of_folder(folder)
    if reservation is not None:
        file, number = reservation
        contents = dataclasses.replace(contents, budget=place_in_log(BudgetFile(file), number))
    opening = None if table.sha256 is None else commit(fingerprint(table))
    return write(folder / BUNDLE, contents, opening, folder)


def of_folder(folder: Path) -> Contents:
    """Return what a bundle says of a finished run."""
    require_finished(folder)
    pipeline: dict[str, Any] = json.loads((folder / "pipeline.json").read_text(encoding="utf-8"))
    found = folder / "audits.json"
    return Contents(
        load_certificate(folder),
        (folder / "model.npz").read_bytes(),
        (folder / "history.csv").read_text(encoding="utf-8"),
        (folder / "report.html").read_text(encoding="utf-8"),
        description=pipeline["model"],
        schema=pipeline["schema"],
        recipe={name: pipeline[name] for name in ("objective", "target", "recipe")},
        audits=tuple(json.loads(found.read_text(encoding="utf-8"))) if found.exists() else (),
    )


def _contents(result: Any) -> Contents:
    if isinstance(result, Path | str):
        return of_folder(Path(result))
    if isinstance(result, Result):
        return _of_numbers(result.certificate, result.history, result.params)
    if not hasattr(result, "certificate_"):
        raise TypeError(
            f"result = {type(result).__name__} must be what gs.solve returned, a fitted estimator, or a run's folder."
        )
    fitted = {name: value for name, value in vars(result).items() if name.endswith("_") and not name.startswith("_")}
    numbers = {name: value for name, value in fitted.items() if name not in ("certificate_", "history_")}
    return _of_numbers(result.certificate_, result.history_, numbers)


def _of_numbers(certificate: Certificate, history: Mapping[str, np.ndarray], params: Any) -> Contents:
    leaves = {
        jax.tree_util.keystr(path) or "params": np.asarray(leaf)
        for path, leaf in jax.tree_util.tree_leaves_with_path(params)
    }
    plain = {name: leaf for name, leaf in leaves.items() if leaf.dtype.kind in "biufU"}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **{f"{place}": leaf for place, leaf in enumerate(plain.values())})
    names = [{"name": name, "shape": list(leaf.shape), "type": str(leaf.dtype)} for name, leaf in plain.items()]
    return Contents(
        certificate, buffer.getvalue(), history_text(history), render(certificate, history, {}), description=names
    )


def _digest(table: Any) -> str:
    """Return the digest that is committed to: of a file's bytes, or of arrays."""
    if isinstance(table, Path | str | Table):
        return fingerprint(table)
    return digest_records(jax.tree.map(np.asarray, table))
