"""The gateway that has a data folder open on this machine: its address, and the key of its operator API."""

from contextlib import suppress
from pathlib import Path

from toolkit.secret import Secret


def running_gateway(folder: Path) -> tuple[str, Secret] | None:
    """Return URL and key of the gateway that has the folder open; None if no gateway has, or the key cannot be read."""
    try:
        url, process = (folder / "gateway.url").read_text("ascii").split()
        key = Secret((folder / "operator.key").read_text("ascii").strip())
        import filelock  # part of the gateway: without it, none has been started from this environment

        # A killed gateway leaves its address; another program may have the port now, and must not get the key.
        file_lock = filelock.FileLock(folder / "gateway.lock", timeout=0, mode=0o600, thread_local=False)
        with suppress(filelock.Timeout), file_lock:
            return None
        # A gateway that is starting has the folder, but has not yet removed the address of a killed gateway.
        return (url, key) if process == (folder / "gateway.pid").read_text("ascii").strip() else None
    except (ImportError, OSError, ValueError):
        return None
