"""Private training beyond DP-SGD.

Say what to minimise over a table of people's records, and a budget (ε, δ); get a model and a certificate that says
what was promised, what was asked of the data, and under which assumptions.
"""

import lazy_loader

__version__ = "0.2.0.dev0"

# What the package offers is listed once, in the stub beside this file, and imported when it is first used: the command
# line answers before JAX is loaded.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
