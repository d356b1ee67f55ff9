"""Redis servers for tests: one that all share, a cluster of three nodes, and such as are killed.

They run on loopback in temporary folders and end with the test process, also where that is killed: a shell beside each
hears on its standard input that nobody is there any more.
"""

from __future__ import annotations

import atexit
import itertools
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import TracebackType

import psutil
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.conftest import required_program
from tests.ports import free_port

_SECONDS = 60.0
_worlds = itertools.count()


class RedisServer:
    """One Redis in a process of its own; ended at the end of the ``with`` block.

    Parameters
    ----------
    settings
        Of redis.conf, with underscores for dashes.
    """

    def __init__(self, **settings: object) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="redis-"))
        self.port = free_port()
        self._settings = {"bind": "127.0.0.1", "save": "", "dir": self.folder, "daemonize": "no", **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    def client(self, **options: object) -> redis.Redis:
        return redis.Redis(port=self.port, retry=Retry(NoBackoff(), 0), **options)  # type: ignore[arg-type]

    def start(self) -> None:
        program = required_program("redis-server", "valkey-server")
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command(program), stdout=log, stderr=log)
        when_we_are_gone = ["sh", "-c", "cat > /dev/null; kill -9 $0", str(self._process.pid)]
        self._watchdog = subprocess.Popen(when_we_are_gone, stdin=subprocess.PIPE)
        wait_until(self._is_ready, f"Redis did not start: {self.folder / 'log'}")

    def kill(self) -> None:
        """End it as a power cut of its process would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Let it hang: connections stay, nothing is answered. Returns once it does nothing any more."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        process = psutil.Process(self._process.pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        self._end(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _end(self, number: int) -> None:
        if self._process is not None and self._watchdog is not None:
            with self._watchdog as watchdog:
                watchdog.kill()
            self._process.send_signal(number)
            self._process.wait(_SECONDS)
            self._process = self._watchdog = None

    def _command(self, program: str) -> list[str]:
        settings = {**self._settings, "port": self.port}
        return [
            program,
            *(part for name, value in settings.items() for part in (f"--{name.replace('_', '-')}", str(value))),
        ]

    def _is_ready(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError((self.folder / "log").read_text())
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.AuthenticationError:
            return True  # it asks for its password
        except redis.RedisError:
            return False


def wait_until(condition: object, otherwise: str = "it did not come about in time") -> None:
    deadline = time.monotonic() + _SECONDS
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, otherwise
        time.sleep(0.01)


@cache
def shared_server() -> RedisServer:
    """Return the server that all tests of this process share."""
    server = RedisServer()
    atexit.register(server.stop)
    return server


@cache
def shared_cluster() -> list[RedisServer]:
    """Return the three nodes of the cluster that all tests of this process share."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(cluster_of(3, cluster_node_timeout=5000))


@contextmanager
def cluster_of(servers: int, **settings: object) -> Iterator[list[RedisServer]]:
    """Run a cluster: three masters, and replicas of one after the other of them."""
    with ExitStack() as stack:
        buses = [free_port() for _ in range(servers)]
        nodes = [stack.enter_context(RedisServer(cluster_enabled="yes", cluster_port=bus, **settings)) for bus in buses]
        bounds = [0, 5461, 10923, 16384]
        for number, node in enumerate(nodes):
            with node.client() as client:
                if number < 3:
                    client.execute_command("CLUSTER ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
                client.execute_command("CLUSTER MEET", "127.0.0.1", nodes[0].port, buses[0])
        for node in nodes:
            wait_until(lambda node=node: _knows(node, servers), "the cluster did not come together")
        for number, node in enumerate(nodes[3:]):
            with node.client() as client, nodes[number % 3].client() as master:
                client.execute_command("CLUSTER REPLICATE", master.cluster("MYID"))
            wait_until(lambda node=node: is_linked(node), "the replica did not find its master")
        for node in nodes:
            wait_until(lambda node=node: _knows(node, servers, servers - 3), "a node does not know all replicas")
        yield nodes


def is_linked(replica: RedisServer) -> bool:
    """Whether a replica has all that its master has."""
    with replica.client() as client:
        return bool(client.info("replication").get("master_link_status") == "up")


def is_master(server: RedisServer) -> bool:
    with server.client() as client:
        return bool(client.info("replication")["role"] == "master")


def fresh_url() -> str:
    """Return the URL of the shared server for a world of its own."""
    return f"{shared_server().url}?prefix=world-{next(_worlds)}:&timeout=30"


def fresh_cluster_url() -> str:
    """Return the URL of the shared cluster for a world of its own."""
    hosts = ",".join(f"127.0.0.1:{node.port}" for node in shared_cluster())
    return f"redis+cluster://{hosts}?prefix=world-{next(_worlds)}:&timeout=30"


@contextmanager
def migration_of(key: bytes) -> Iterator[Callable[[], None]]:
    """Begin to move the slot of a key to the next node of the shared cluster; gives a function that ends the move."""
    nodes = shared_cluster()
    clients = [node.client() for node in nodes]
    slot = clients[0].cluster("KEYSLOT", key)
    ids = [client.cluster("MYID").decode() for client in clients]
    (owner,) = [n for n, client in enumerate(clients) if client.cluster("COUNTKEYSINSLOT", slot)]
    target = (owner + 1) % 3
    clients[target].cluster("SETSLOT", slot, "IMPORTING", ids[owner])
    clients[owner].cluster("SETSLOT", slot, "MIGRATING", ids[target])

    def move() -> None:
        while keys := clients[owner].cluster("GETKEYSINSLOT", slot, 100):
            clients[owner].execute_command("MIGRATE", "127.0.0.1", nodes[target].port, "", 0, 10_000, "KEYS", *keys)
        for number in (target, owner, (owner + 2) % 3):
            clients[number].cluster("SETSLOT", slot, "NODE", ids[target])

    try:
        yield move
    finally:
        for client in clients:
            client.cluster("SETSLOT", slot, "STABLE")
            client.close()


def _knows(node: RedisServer, servers: int, replicas: int = 0) -> bool:
    with node.client() as client:
        info, slots = client.cluster("INFO"), client.execute_command("CLUSTER SLOTS")
        is_whole = info["cluster_state"] == "ok" and info["cluster_known_nodes"] == str(servers) and len(slots) == 3
        return is_whole and sum(len(of_slots) - 3 for of_slots in slots) == replicas


class Sentinel(RedisServer):
    """One Sentinel that watches a master, and puts a replica in its place soon after it is gone."""

    SERVICE = "themaster"

    def __init__(self, master: RedisServer, replicas: int) -> None:
        self._master = master
        self._replicas = replicas
        super().__init__()

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:{self.port}/{self.SERVICE}"

    def _command(self, program: str) -> list[str]:
        # Sentinel writes down in its file what it learns.
        file = self.folder / "sentinel.conf"
        settings = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {self.folder}",
            f"sentinel monitor {self.SERVICE} 127.0.0.1 {self._master.port} 1",
            f"sentinel down-after-milliseconds {self.SERVICE} 1500",
            f"sentinel failover-timeout {self.SERVICE} 10000",
        ]
        file.write_text("\n".join(settings) + "\n")
        return [program, str(file), "--sentinel"]

    def _is_ready(self) -> bool:
        if not super()._is_ready():
            return False
        with self.client() as client:
            return len(client.sentinel_slaves(self.SERVICE)) == self._replicas
