"""`sandboxd doctor`: what this machine gives, and whether the boundary of a sandbox holds.

The second half is not a look at settings: each check tries to cross the boundary from inside a
real sandbox, and says what it tried and what it saw.
"""

from sandboxd.cli.doctor.command import doctor

__all__ = ["doctor"]
