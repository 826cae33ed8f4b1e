"""From noisy answers to gradient estimates; what variance-reduced methods share.

A difference query asks each record for ∇f(x; z) − ∇f(x′; z). If f is L-smooth that is at most L‖x − x′‖ long, and
‖x − x′‖ is public, both points being private outputs: so the threshold, and the noise with it, shrinks as the points
come together. L is not trusted: a record that violates it is clipped.
"""

from gossamer.gradients.spider import carried_along, is_refresh, refreshes
from gossamer.gradients.storm import change, storm_clip
from gossamer.gradients.svrg import epoch
from gossamer.gradients.thresholds import difference_clip

__all__ = ["carried_along", "change", "difference_clip", "epoch", "is_refresh", "refreshes", "storm_clip"]
