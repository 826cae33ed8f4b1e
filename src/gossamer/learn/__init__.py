"""scikit-learn estimators with a privacy budget."""

import lazy_loader

# The stub beside this file lists the estimators. They are imported when they are first used: what they train for
# (`_objectives`) is known without JAX.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
