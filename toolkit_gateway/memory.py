"""What the operating system is asked about the memory of the gateway."""

import ctypes
import sys
from contextlib import suppress

_PR_SET_DUMPABLE = 4  # of <linux/prctl.h>


def give_back() -> None:
    """Return free memory to the system where the C library is glibc, which keeps what lies between blocks in use.

    After a crowd of large requests this is more than what is in use. It takes milliseconds, 15 for 50 MB.
    """
    # OSError, TypeError: there is no handle of the process (Windows); AttributeError: another C library (macOS, musl).
    with suppress(OSError, TypeError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


def hide_memory() -> None:
    """On Linux, refuse other processes of the user the memory and the environment of this one; no core dumps either.

    Child processes may run untrusted code, and the environment holds keys. The superuser is not refused.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
