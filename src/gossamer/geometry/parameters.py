"""One check, and one shape of message, for the numbers that geometry objects are made of."""

import math
from numbers import Real


def finite_number(
    owner: str, name: str, value: object, *, remedy: str, minimum: float = -math.inf, exclusive: bool = False
) -> float:
    """Return `value` as a Python float, or raise a ValueError with its name, value, bound and remedy."""
    if isinstance(value, Real) and math.isfinite(value):
        number = float(value)
        if number > minimum or (number == minimum and not exclusive):
            return number
    bound = "" if math.isinf(minimum) else f" {'>' if exclusive else '>='} {minimum:g}"
    raise ValueError(f"{owner}: {name}={value!r} must be a finite Python number{bound}; {remedy}")
