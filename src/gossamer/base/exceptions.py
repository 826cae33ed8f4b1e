"""Warnings and errors that belong to no single module."""


class AccountingError(ValueError):
    """A budget that no noise can meet, or that cannot be accounted for reliably."""


class PrivacyLeakWarning(RuntimeWarning):
    """Something that should be public had to be read from the records, outside the guarantee."""


class WeakGuaranteeWarning(UserWarning):
    """The promise that was asked for is formally kept but says little."""


class DivergedError(FloatingPointError):
    """The iterate became infinite or not a number; the scheduled privacy is spent all the same."""


class OverspentError(RuntimeError):
    """A method asked for more than it had scheduled; what it got was NaN."""


class LostProcessError(RuntimeError):
    """Another process of the run is gone, and what it knew of the records with it."""
