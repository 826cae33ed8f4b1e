"""The proximal operator of a penalty and a constraint together, where it has a closed form.

`prox(r, C, v, step)` = argmin_{x ∈ C} ½‖x − v‖² + s·r(x), with s = step. It is the projection of prox_{sr}(v) on C
for the pairs below (and only for them: in general the two do not commute), except L1 on the simplex. Here w_i ∈ {0, 1}
says whether coordinate i is penalised (`exclude` makes it 0), and ∂ is the subdifferential.

**Zero, any C.** By definition of the projection.

**L2 without `exclude`, any convex C.** Complete the square: ½‖x − v‖² + (sλ/2)‖x‖² =
((1 + sλ)/2)·‖x − v/(1 + sλ)‖² + constant, so the minimiser over C is the point of C nearest to the shrunk v.
With `exclude` the square is a different norm, and the nearest point in that norm is not the projection.

**L2, L1, ElasticNet (any `exclude`), Box.** Objective and box are separable. A convex function on a line decreases
before its minimiser and increases after it, so over an interval it is least at the clipped minimiser. This holds
whether or not the interval contains 0.

**L1, GroupLasso (any `exclude`), L2Ball.** x is optimal iff v − (1 + μ)x ∈ s∂r(x) for a μ ≥ 0 that is 0 unless
‖x‖ = R. Both penalties are positively homogeneous, so ∂r(x) = ∂r((1 + μ)x), and the condition says that
p = (1 + μ)x is prox_{sr}(v). So x = p if ‖p‖ ≤ R and else x = R·p/‖p‖: the projection of p.

**ElasticNet without `exclude`, L2Ball.** As before with v − (1 + sλ₂ + μ)x ∈ sλ₁∂‖x‖₁: x is a multiple
1/(1 + sλ₂ + μ) of the soft-thresholded v, with the least μ ≥ 0 that brings it into the ball.

**L1 (any `exclude`), L1Ball.** x is optimal iff v_i − x_i ∈ (sλw_i + ν)∂|x_i| for a ν ≥ 0 that is 0 unless ‖x‖₁ = R.
Thresholds add up: x is v soft-thresholded by sλw_i and then by ν; the second is the projection on the ball.

**ElasticNet without `exclude`, L1Ball.** The same with x_i = soft(v_i, sλ₁ + ν)/(1 + sλ₂) =
soft(p_i, ν/(1 + sλ₂)), p = prox_{sr}(v). With `exclude` the second threshold would differ between coordinates.

**L1 (any `exclude`), Simplex.** There x ≥ 0, so r(x) = λ Σ w_i x_i = λ·total − λ Σ (1 − w_i)x_i is linear: the
minimiser is the projection of v + sλ(1 − w). Without `exclude` it is the projection of v itself: r is constant.

**ElasticNet without `exclude`, Simplex.** The L1 part is constant, and L2 remains.
"""

from gossamer.base.trees import PyTree, map_named
from gossamer.geometry.constraints import Box, Constraint, L1Ball, L2Ball, Simplex
from gossamer.geometry.regularizers import L1, L2, ElasticNet, GroupLasso, Regularizer, Step, Zero

_EVERY_SET = (L2Ball, L1Ball, Box, Simplex)

# The sets that each penalty composes with: without and with `exclude`. The module's docstring has the proofs.
_COMPOSES: dict[type[Regularizer], tuple[tuple[type[Constraint], ...], tuple[type[Constraint], ...]]] = {
    Zero: (_EVERY_SET, _EVERY_SET),
    L2: (_EVERY_SET, (Box,)),
    L1: (_EVERY_SET, _EVERY_SET),
    ElasticNet: (_EVERY_SET, (Box,)),
    GroupLasso: ((L2Ball,), (L2Ball,)),
}


def check(regularizer: Regularizer, constraint: Constraint | None) -> None:
    """Raise a ValueError unless the pair has a closed-form proximal operator."""
    if constraint is None:
        return
    plain, excluding = _COMPOSES.get(type(regularizer), ((), ()))
    composes = excluding if regularizer.exclude else plain
    if type(constraint) not in composes:
        allowed = ", ".join(["None", *(kind.__name__ for kind in composes)])
        partners = [kind.__name__ for kind, (sets, _) in _COMPOSES.items() if type(constraint) in sets]
        remedy = "drop exclude, or " if type(constraint) in plain else ""
        raise ValueError(
            f"regularizer={regularizer!r} with constraint={constraint!r} has no closed-form proximal operator; "
            f"{remedy}use for this regularizer a constraint among: {allowed}; "
            f"or for this constraint a regularizer (without exclude) among: {', '.join(partners) or 'none'}"
        )


def prox(regularizer: Regularizer, constraint: Constraint | None, tree: PyTree, step: Step) -> PyTree:
    """Return argmin over the constraint of ½‖x − tree‖² + step·r(x), exactly; refuse pairs without a closed form."""
    check(regularizer, constraint)
    if constraint is None:
        return regularizer.prox(tree, step)
    if isinstance(constraint, Simplex):
        return constraint.project(_prox_up_to_shift(regularizer, tree, step))
    return constraint.project(regularizer.prox(tree, step))


def _prox_up_to_shift(regularizer: Regularizer, tree: PyTree, step: Step) -> PyTree:
    """Proximal step on {x ≥ 0, Σ x fixed}, before projection: L1 is linear there."""
    if isinstance(regularizer, L1):
        # Rewarding the excluded, rather than charging the others, adds nothing to anyone when nobody is excluded.
        reward = step * regularizer.strength
        return map_named(lambda x: x, tree, regularizer.exclude, otherwise=lambda x: x + reward)
    if isinstance(regularizer, ElasticNet):
        return L2(regularizer.l2).prox(tree, step)
    return regularizer.prox(tree, step)
