"""What every test relies on, however the tests are started: by make, by pytest alone, or beside others of a shell."""

import os
import signal

# One thread each, as make has it: with more, sums round as it comes, and two processes train different networks.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Ctrl-C is Python's own, also where a shell ignores it for what runs beside.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
