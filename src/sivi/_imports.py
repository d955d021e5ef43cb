"""The packages that take long to import, before all else: Ctrl-C is not lost meanwhile."""

from ._interrupts import interrupts_kept

with interrupts_kept():
    import equinox  # noqa: F401
    import jax.numpy  # noqa: F401
    import optax  # noqa: F401
    import scipy.special  # noqa: F401
    import tqdm.auto  # noqa: F401
