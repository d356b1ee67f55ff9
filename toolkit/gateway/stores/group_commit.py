"""One thread owns the SQLite connection and commits many pieces of work in one transaction.

While a transaction is on its way to the disk, more work gathers; the next transaction takes all of it. So a
hundred callers share one fsync, and nobody waits for more than two.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, TypeVar

from toolkit.gateway.stores import StoreUnavailable

T = TypeVar("T")


class _Task(NamedTuple):
    work: Callable[[sqlite3.Connection], Any]
    deliver: Callable[[Any], None]
    fail: Callable[[Exception], None]
    atomic: bool


class _AllUndone(sqlite3.OperationalError):
    """A failure so bad (disk full, I/O error) that SQLite has undone more than the piece that met it."""


class GroupCommit:
    """Run pieces of work on one connection, in order, and deliver their results once they are on disk.

    Parameters
    ----------
    connect
        Makes the connection (autocommit mode), called in the thread that will use it.
    on_rollback
        Called in that thread after a transaction was undone, so that nothing remembered from it survives.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], on_rollback: Callable[[], None]) -> None:
        self._connect = connect
        self._on_rollback = on_rollback
        self._queue: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="gateway-store", daemon=True)

    async def open(self) -> None:
        """Start the thread and wait until the database is open."""
        self._thread.start()
        await self._opened

    def close(self) -> None:
        """Finish all submitted work and end the thread."""
        self._closing = True
        self._queue.put(None)
        self._thread.join()

    def submit(
        self,
        work: Callable[[sqlite3.Connection], Any],
        deliver: Callable[[Any], None],
        fail: Callable[[Exception], None],
        *,
        atomic: bool = False,
    ) -> None:
        """Queue `work`; on the event loop call `deliver` with its result after the commit, or `fail`.

        Work that is `atomic` by itself gets no transaction around it when nothing else waits. Each statement costs
        this thread a fight for the interpreter, so one statement instead of three is three times as fast.
        """
        if self._closing:
            fail(StoreUnavailable("the gateway is stopping"))
            return
        self._queue.put(_Task(work, deliver, fail, atomic))

    def run(
        self, work: Callable[[sqlite3.Connection], T], announce: Callable[[T], None] | None = None
    ) -> asyncio.Future[T]:
        """Queue `work` and return its result as a future; `announce` sees the result just before its caller does."""
        future: asyncio.Future[T] = self._loop.create_future()

        def deliver(result: T) -> None:
            try:
                if announce is not None:
                    announce(result)
            finally:  # a watcher's mistake must not leave the caller waiting
                if not future.done():
                    future.set_result(result)

        def fail(error: Exception) -> None:
            if not future.done():
                future.set_exception(error)

        self.submit(work, deliver, fail)
        return future

    def _run(self) -> None:
        try:
            connection = self._connect()
        except Exception as error:  # reported to the opener, who raises it
            self._loop.call_soon_threadsafe(self._opened.set_exception, error)
            return
        self._loop.call_soon_threadsafe(self._opened.set_result, None)
        running = True
        while running:
            tasks = [self._queue.get()]
            while not self._queue.empty():
                tasks.append(self._queue.get())
            running = None not in tasks
            self._commit(connection, [task for task in tasks if task is not None])
        connection.close()

    def _commit(self, connection: sqlite3.Connection, tasks: list[_Task]) -> None:
        try:
            if len(tasks) == 1 and tasks[0].atomic:
                results = [tasks[0].work(connection)]
            else:
                with transaction(connection):
                    results = [task.work(connection) for task in tasks]
        except Exception as error:
            self._on_rollback()
            if len(tasks) > 1:
                self._commit_apart(connection, tasks)
            else:
                self._tell([tasks[0].fail], [_as_unavailable(error)])
        else:
            self._tell([task.deliver for task in tasks], results)

    def _commit_apart(self, connection: sqlite3.Connection, tasks: list[_Task]) -> None:
        """Do the same once more, each piece of work undone by itself where it fails: one bad call costs no other."""
        callbacks: list[Callable[[Any], None]] = []
        values: list[Any] = []
        try:
            with transaction(connection):
                for task in tasks:
                    try:
                        values.append(self._apart(connection, task))
                        callbacks.append(task.deliver)
                    except _AllUndone:
                        raise
                    except Exception as error:
                        values.append(_as_unavailable(error))
                        callbacks.append(task.fail)
        except Exception as error:  # the disk itself: every caller is told, none was acknowledged
            self._on_rollback()
            self._tell([task.fail for task in tasks], [_as_unavailable(error)] * len(tasks))
        else:
            self._tell(callbacks, values)

    def _apart(self, connection: sqlite3.Connection, task: _Task) -> Any:  # noqa: ANN401
        connection.execute("SAVEPOINT piece")
        try:
            result = task.work(connection)
        except Exception:
            self._on_rollback()
            if not connection.in_transaction:  # what was done before this piece is lost too
                raise _AllUndone("the database has undone the whole transaction") from None
            connection.execute("ROLLBACK TO piece")
            connection.execute("RELEASE piece")
            raise
        connection.execute("RELEASE piece")
        return result

    def _tell(self, callbacks: list[Callable[[Any], None]], values: list[Any]) -> None:
        def tell() -> None:
            for callback, value in zip(callbacks, values, strict=True):
                try:
                    callback(value)
                except Exception as error:  # one caller's mistake must not cost the others their answers
                    self._loop.call_exception_handler({"message": "a store callback failed", "exception": error})

        self._loop.call_soon_threadsafe(tell)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Make the block one transaction, or a part of the one that is under way."""
    if connection.in_transaction:
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):  # a disk that is gone: the next BEGIN says so to its callers
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def _as_unavailable(error: Exception) -> Exception:
    if isinstance(error, sqlite3.Error):
        return StoreUnavailable(f"the store cannot write: {error}")
    return error
