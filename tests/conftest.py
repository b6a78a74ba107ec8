"""Ctrl-C is Python's own in the tests, also where they are started by a shell that ignores it for what runs beside."""

import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
