"""From noisy answers to gradient estimates; what variance-reduced methods share.

A difference query asks each record for ∇f(x; z) − ∇f(x′; z). If f is L-smooth that is at most L‖x − x′‖ long, and
‖x − x′‖ is public, both points being private outputs: so the threshold, and the noise with it, shrinks as the points
come together. L is not trusted: a record that violates it is clipped.
"""

from gossamer.gradients.spider import refreshes, spider
from gossamer.gradients.storm import change, storm_clip
from gossamer.gradients.svrg import epoch
from gossamer.gradients.thresholds import difference_clip

__all__ = ["change", "difference_clip", "epoch", "refreshes", "spider", "storm_clip"]
