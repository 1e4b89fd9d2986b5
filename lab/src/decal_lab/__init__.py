"""The laboratory of decal: experiments, the methods they compare with, and their data.

`baselines` holds the other methods of the paper, `data` loads public data sets, `members` tests
whether a distribution within credal sets is calibrated, `acquisition` says what to label next.
The experiments are run by `decal reproduce`. All of it uses public names of decal only.
"""

__version__ = "0.1.0"

__all__ = ["__version__"]
