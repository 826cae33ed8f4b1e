"""Fitted classifiers as bytes and plain values, and back; predictions are the same to the last bit.

The numbers go into an npz file, everything else is fit for JSON. Both are read as if an enemy had written them: what
shapes the file must hold follows from the description, members must be stored as they are, so that no file grows when
it is read, and nothing is ever unpickled.
"""

import hashlib
import io
import itertools
import math
import zipfile
from typing import Any

import numpy as np

_NUMBERS = {
    "PrivateLogisticRegression": (),
    "PrivateAUCClassifier": ("data_norm_", "threshold_", "positive_share_"),
    "PrivateDROClassifier": ("data_norm_",),
}
"""What each classifier keeps besides arrays and names."""
_OVERHEAD = 1 << 10
"""The most that a member's name and header take."""


def pack(model: Any) -> tuple[bytes, dict[str, Any]]:
    """Return a fitted classifier as the bytes of an npz file and a description of plain values."""
    kind = type(model).__name__
    if kind not in _NUMBERS:
        raise TypeError(f"model = {kind} cannot be stored; {', '.join(_NUMBERS)} can.")
    layers = getattr(model, "layers_", [])
    description: dict[str, Any] = {
        "estimator": kind,
        "features": int(model.n_features_in_),
        "classes": model.classes_.tolist(),
        "hidden": [layer["bias"].size for layer in layers[:-1]],
        "numbers": {name: float(getattr(model, name)) for name in _NUMBERS[kind]},
        "groups": model.groups_.tolist() if hasattr(model, "groups_") else [],
    }
    arrays = {f"layers_.{i}.{name}": leaf for i, layer in enumerate(layers) for name, leaf in layer.items()}
    whole = {name: getattr(model, name) for name in ("coef_", "intercept_", "group_weights_") if hasattr(model, name)}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays, **whole)
    content = buffer.getvalue()
    return content, {**description, "sha256": hashlib.sha256(content).hexdigest()}


def largest_size(description: dict[str, Any]) -> int:
    """Return how many bytes a model's file may have at most, to be asked before it is read."""
    return _OVERHEAD + sum(_OVERHEAD + 8 * math.prod(shape) for shape in _shapes(description).values())


def unpack(content: bytes, description: dict[str, Any]) -> Any:
    """Return the classifier that `pack` was given; refuse anything else by a ValueError."""
    from gossamer import learn

    shapes = _shapes(description)
    arrays = _read(content, shapes)
    if hashlib.sha256(content).hexdigest() != description.get("sha256"):
        raise ValueError("the model's file and its description do not belong together: the checksums differ.")
    model = getattr(learn, description["estimator"])()
    model.n_features_in_ = description["features"]
    model.classes_ = np.array(description["classes"])
    for name in _NUMBERS[description["estimator"]]:
        setattr(model, name, float(description["numbers"][name]))
    for name in ("coef_", "intercept_", "group_weights_"):
        if name in arrays:
            setattr(model, name, arrays[name])
    if description["groups"]:
        model.groups_ = np.array(description["groups"])
    if "layers_.0.weights" in arrays:
        depth = len(description["hidden"]) + 1
        model.layers_ = [{name: arrays[f"layers_.{i}.{name}"] for name in ("weights", "bias")} for i in range(depth)]
    return model


def _shapes(description: Any) -> dict[str, tuple[int, ...]]:
    """Return which arrays the file must hold, by a description that is checked on the way."""
    what = _fields(description)
    for name in ("classes", "groups"):
        names = what[name]
        if not isinstance(names, list) or not (
            all(isinstance(each, str) for each in names) or all(type(each) is int for each in names)
        ):
            raise ValueError(f"the model's {name} must be a list of names or of whole numbers.")
        if len(set(names)) != len(names) or len(names) == 1 or (name == "classes" and not names):
            raise ValueError(f"the model's {name} must be two or more different ones.")
    sizes = what["hidden"] if isinstance(what["hidden"], list) else [0]
    if not all(type(size) is int and size >= 1 for size in (what["features"], *sizes)):
        raise ValueError("the model's features and hidden sizes must be whole numbers of at least 1.")
    numbers, expected = what["numbers"], _NUMBERS[what["estimator"]]
    if not isinstance(numbers, dict) or set(numbers) != set(expected):
        raise ValueError(f"a {what['estimator']} has the numbers {list(expected)}.")
    if not all(type(value) in (int, float) and math.isfinite(value) for value in numbers.values()):
        raise ValueError("the model's numbers must be finite.")
    outputs = 1 if len(what["classes"]) == 2 else len(what["classes"])
    if what["estimator"] == "PrivateLogisticRegression":
        return {"coef_": (outputs, what["features"]), "intercept_": (outputs,)}
    widths = [what["features"], *sizes, outputs]
    shapes: dict[str, tuple[int, ...]] = {}
    for i, (rows, columns) in enumerate(itertools.pairwise(widths)):
        shapes |= {f"layers_.{i}.weights": (rows, columns), f"layers_.{i}.bias": (columns,)}
    return shapes | ({"group_weights_": (len(what["groups"]),)} if what["groups"] else {})


def _fields(description: Any) -> dict[str, Any]:
    expected = {"estimator", "features", "classes", "hidden", "numbers", "groups", "sha256"}
    if not isinstance(description, dict) or set(description) != expected:
        raise ValueError(f"the description of a model has the fields {sorted(expected)}.")
    kind = description["estimator"]
    if not isinstance(kind, str) or kind not in _NUMBERS:
        raise ValueError(f"estimator = {str(kind)[:80]!r} must be one of {', '.join(_NUMBERS)}.")
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
