"""What every test run needs."""

from __future__ import annotations

import signal

# A run that was started in the background inherits an ignored ctrl+c; the programs under test must not.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
