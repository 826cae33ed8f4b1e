"""Fitted estimators as bytes and plain values, and back; predictions are the same to the last bit.

The arrays go into an npz file, everything else is fit for JSON. Both are read as if an attacker had written them: what
shapes the file must hold follows from the description and from what the objective keeps, members must be stored as they
are, so that no file grows when it is read, and nothing is ever unpickled.
"""

import hashlib
import io
import itertools
import math
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from gossamer.learn._objectives import Objective
from gossamer.tables.encoding import Declaration, coded_kinds
from gossamer.tables.kinds import Category, Number

_ADDED = {"threshold_": 0.0}
"""What models of earlier versions did not keep, and what it was."""
_FUNCTION = ("grid", "values", "missing")
"""What is kept of the function of a column."""
_OVERHEAD = 1 << 10
"""The most that a member's name and header take."""


def pack(model: Any, objective: Objective) -> tuple[bytes, dict[str, Any]]:
    """Return an estimator that was fitted for an objective as the bytes of an npz file and a plain description."""
    layers = getattr(model, "layers_", [])
    description: dict[str, Any] = {
        "estimator": _estimator(objective),
        "features": int(model.n_features_in_),
        "classes": model.classes_.tolist() if objective.target == "classes" else [],
        "hidden": [layer["bias"].size for layer in layers[:-1]],
        "numbers": {name: float(getattr(model, name)) for name in _numbers(objective)},
        "groups": model.groups_.tolist() if objective.grouped else [],
    }
    functions = getattr(model, "shapes_", {}).values()
    if objective.additive:
        description["points"] = [len(each.grid) for each in functions]
    arrays = {f"shapes_.{i}.{name}": getattr(each, name) for i, each in enumerate(functions) for name in _FUNCTION}
    arrays |= {f"layers_.{i}.{name}": leaf for i, layer in enumerate(layers) for name, leaf in layer.items()}
    whole = {name: getattr(model, name) for name, shape in objective.keeps.items() if shape}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays, **whole)
    content = buffer.getvalue()
    return content, {**description, "sha256": hashlib.sha256(content).hexdigest()}


def largest_size(description: dict[str, Any], objective: Objective) -> int:
    """Return how many bytes a model's file may have at most, to be asked before it is read."""
    return _OVERHEAD + sum(_OVERHEAD + 8 * math.prod(shape) for shape in _shapes(description, objective).values())


def unpack(
    content: bytes, description: dict[str, Any], objective: Objective, columns: Mapping[str, Declaration] | None = None
) -> Any:
    """Return the estimator that `pack` was given; refuse anything else by a ValueError.

    `columns` is what is declared of them, for a model that keeps a function of each.
    """
    shapes = _shapes(description, objective)
    arrays = _read(content, shapes)
    if hashlib.sha256(content).hexdigest() != description.get("sha256"):
        raise ValueError("the model's file and its description do not belong together: the checksums differ.")
    model = objective.load()()
    model.n_features_in_ = description["features"]
    if objective.target == "classes":
        model.classes_ = np.array(description["classes"])
    for name, shape in objective.keeps.items():
        setattr(model, name, arrays[name] if shape else float({**_ADDED, **description["numbers"]}[name]))
    if objective.grouped:
        model.groups_ = np.array(description["groups"])
    if objective.layers:
        depth = len(description["hidden"]) + 1
        model.layers_ = [{name: arrays[f"layers_.{i}.{name}"] for name in ("weights", "bias")} for i in range(depth)]
    if objective.additive:
        model.shapes_ = _functions(arrays, description["features"], columns or {})
        model.feature_names_in_ = np.array(list(model.shapes_), object)
    return model


def _functions(arrays: dict[str, np.ndarray], features: int, columns: Mapping[str, Declaration]) -> dict[str, Any]:
    """Return the function of each declared column."""
    from gossamer.learn._shapes import Shape  # it needs JAX

    kinds = coded_kinds(columns)
    if len(kinds) != features:
        raise ValueError(f"the model has functions of {features} columns, and {len(kinds)} are declared.")
    found = {}
    for i, (name, kind) in enumerate(zip(columns, kinds, strict=True)):
        grid, values, missing = (arrays[f"shapes_.{i}.{part}"] for part in _FUNCTION)
        codes = np.arange(-1.0, kind.width) if isinstance(kind, Category) else [-1.0, 0.0][isinstance(kind, Number) :]
        if not np.array_equal(grid[: len(codes)], codes) or not (np.diff(grid) > 0).all():
            raise ValueError(f"the function of column {name!r} is not one of what is declared of that column.")
        found[name] = Shape(kind, grid, values, missing)
    return found


def _estimator(objective: Objective) -> str:
    """Return the name of the estimator's class."""
    return objective.estimator.rpartition(".")[2]


def _numbers(objective: Objective) -> list[str]:
    """Return what an objective keeps besides arrays and names."""
    return [name for name, shape in objective.keeps.items() if not shape]


def _shapes(description: Any, objective: Objective) -> dict[str, tuple[int, ...]]:
    """Return which arrays the file must hold, by a description that is checked on the way."""
    what = _fields(description, objective)
    for name, has in (("classes", objective.target == "classes"), ("groups", objective.grouped)):
        names = what[name]
        if not isinstance(names, list) or not (
            all(isinstance(each, str) for each in names) or all(type(each) is int for each in names)
        ):
            raise ValueError(f"the model's {name} must be a list of names or of whole numbers.")
        if len(set(names)) != len(names) or (len(names) < 2 if has else names):
            raise ValueError(f"the model's {name} must be {'two or more different ones' if has else 'none'}.")
    sizes = what["hidden"] if isinstance(what["hidden"], list) else [0]
    if not all(type(size) is int and size >= 1 for size in (what["features"], *sizes)):
        raise ValueError("the model's features and hidden sizes must be whole numbers of at least 1.")
    numbers, expected = what["numbers"], _numbers(objective)
    if not isinstance(numbers, dict) or not set(expected) - set(_ADDED) <= set(numbers) <= set(expected):
        raise ValueError(f"a {what['estimator']} has the numbers {expected}.")
    if not all(type(value) in (int, float) and math.isfinite(value) for value in numbers.values()):
        raise ValueError("the model's numbers must be finite.")
    outputs = len(what["classes"]) if len(what["classes"]) > 2 else 1
    sizes_of = {"features": what["features"], "outputs": outputs, "groups": len(what["groups"])}
    shapes = {name: tuple(sizes_of[axis] for axis in shape) for name, shape in objective.keeps.items() if shape}
    points = what.get("points", [])
    if not isinstance(points, list) or len(points) != (what["features"] if objective.additive else 0):
        raise ValueError("the model's points must be a list with a number for each column.")
    if not all(type(size) is int and size >= 1 for size in points):
        raise ValueError("the model's points must be whole numbers of at least 1.")
    for i, size in enumerate(points):
        of = ((size,), (size, outputs), (outputs,))
        shapes |= {f"shapes_.{i}.{name}": shape for name, shape in zip(_FUNCTION, of, strict=True)}
    if not objective.layers:
        if sizes:
            raise ValueError("the model's hidden sizes must be none: it has no layers.")
        return shapes
    for i, (rows, columns) in enumerate(itertools.pairwise([what["features"], *sizes, outputs])):
        shapes |= {f"layers_.{i}.weights": (rows, columns), f"layers_.{i}.bias": (columns,)}
    return shapes


def _fields(description: Any, objective: Objective) -> dict[str, Any]:
    expected = {"estimator", "features", "classes", "hidden", "numbers", "groups", "sha256"}
    expected |= {"points"} if objective.additive else set()
    if not isinstance(description, dict) or set(description) != expected:
        raise ValueError(f"the description of a model has the fields {sorted(expected)}.")
    if description["estimator"] != _estimator(objective):
        raise ValueError(
            f"estimator = {str(description['estimator'])[:80]!r} must be {_estimator(objective)} for objective = "
            f"{objective.name!r}."
        )
    return description


def _read(content: bytes, shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Return the arrays of an npz file that must have these names and shapes, float64 and finite."""
    arrays = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            if sorted(member.filename for member in members) != sorted(f"{name}.npy" for name in shapes):
                raise ValueError("it has other arrays than its description says")
            for member in members:
                if member.compress_type != zipfile.ZIP_STORED or member.file_size > len(content):
                    raise ValueError("its members are compressed")
                name = member.filename.removesuffix(".npy")
                arrays[name] = _array(archive.read(member), shapes[name])
    # zipfile answers broken files with whatever its parsing meets.
    except (ValueError, zipfile.BadZipFile, EOFError, OSError, RuntimeError, NotImplementedError) as error:
        raise ValueError(f"not the model of a run: {error}.") from None
    return arrays


def _array(content: bytes, shape: tuple[int, ...]) -> np.ndarray:
    """Return one member as an array."""
    file = io.BytesIO(content)
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("its arrays are of another version")
    found, columns_first, dtype = np.lib.format.read_array_header_1_0(file)
    if found != shape or dtype != np.float64:
        raise ValueError(f"an array has shape {found} and type {dtype}, not {shape} and float64")
    body = file.read()
    if len(body) != 8 * math.prod(shape):
        raise ValueError("an array is cut off")
    # The layout in memory decides in which order products are summed.
    values = np.frombuffer(body, np.float64).reshape(shape, order="F" if columns_first else "C").copy(order="K")
    if not np.isfinite(values).all():
        raise ValueError("an array has NaN or infinite entries")
    return values
