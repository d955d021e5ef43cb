"""The versions of this package and of others, also where one runs from a source tree that is not installed."""

from importlib.metadata import PackageNotFoundError, version


def package_version(name: str) -> str:
    """The version of an installed package; "source tree" for one that is not installed.

    Example:
        >>> package_version("no-such-package")
        'source tree'
    """
    try:
        return version(name)
    except PackageNotFoundError:
        return "source tree"


__version__ = package_version("sivi")
