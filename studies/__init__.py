"""Studies: experiments that one command runs from data to figure; `python -m studies` lists them."""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
