"""PyTensor without a C compiler, which takes longer than the small models here, and without looking for a BLAS."""

import os

os.environ.setdefault("PYTENSOR_FLAGS", "blas__ldflags=,mode=FAST_COMPILE")
