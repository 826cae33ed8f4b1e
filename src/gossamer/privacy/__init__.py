"""What is promised and what it costs: budget, schedule, accountants, selection, certificate, budget file."""

import lazy_loader

# The stub beside this file lists what is offered here and not at the top of the package.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
