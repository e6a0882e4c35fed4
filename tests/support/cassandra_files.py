"""The files of Apache Cassandra, from Maven Central through `mvn`, kept in the user's cache folder.

Nothing here names a host: Maven is asked as it is configured on the machine. Where Java or Maven is
missing, or the artifact cannot be had, `Unavailable` says which and tests skip with that reason.
`python -m tests.support.cassandra_files` fetches them ahead of the tests.
"""

from __future__ import annotations

import fcntl
import re
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

VERSION = "5.0.4"

#: Java releases that this version is made for.
JAVA = (11, 17)

DOWNLOAD_LIMIT_S = 180.0

_POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>headrace.tests</groupId>
  <artifactId>cassandra</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.cassandra</groupId>
      <artifactId>cassandra-all</artifactId>
      <version>{VERSION}</version>
    </dependency>
  </dependencies>
</project>
"""


class Unavailable(Exception):
    """Cassandra cannot be had here; the text says why, in one line."""


@cache
def cassandra_jars() -> Path:
    """The folder with Cassandra and all that it needs, fetched once per user.

    Raises:
        Unavailable: it cannot be had.
    """
    cache_folder = Path(platformdirs.user_cache_dir("headrace-tests", appauthor=False))
    jars = cache_folder / f"cassandra-{VERSION}"
    cache_folder.mkdir(parents=True, exist_ok=True)
    with (cache_folder / "cassandra.lock").open("w") as lock:
        # Test workers ask at the same time; one fetches, the others find it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (jars / f"cassandra-all-{VERSION}.jar").is_file():
            _fetch(jars)
    return jars


@cache
def java() -> str:
    """The Java to run it with.

    Raises:
        Unavailable: there is none, or of a release that it does not run on.
    """
    found = shutil.which("java")
    if found is None:
        raise Unavailable("Apache Cassandra needs Java 17, and there is no `java` on the path")
    said = subprocess.run([found, "-version"], capture_output=True, text=True, check=False).stderr
    release = re.search(r'version "(\d+)', said)
    if release is None or int(release[1]) not in JAVA:
        raise Unavailable(f"Apache Cassandra {VERSION} needs Java 11 or 17; this is {said[:60]!r}")
    return found


def _fetch(jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable("Apache Cassandra is fetched with Maven, and there is no `mvn` here")
    with tempfile.TemporaryDirectory(dir=jars.parent) as scratch:
        (Path(scratch) / "pom.xml").write_text(_POM)
        command = [
            *(maven, "-q", "-B", "dependency:copy-dependencies"),
            *("-DincludeScope=runtime", f"-DoutputDirectory={scratch}/jars"),
        ]
        try:
            ended = subprocess.run(
                command,
                cwd=scratch,
                capture_output=True,
                text=True,
                timeout=DOWNLOAD_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise Unavailable(f"Maven took more than {DOWNLOAD_LIMIT_S:g} s") from None
        if ended.returncode:
            first = next((line for line in ended.stdout.splitlines() if "ERROR" in line), "no word")
            raise Unavailable(f"Maven cannot fetch Apache Cassandra {VERSION}: {first[:200]}")
        shutil.rmtree(jars, ignore_errors=True)
        (Path(scratch) / "jars").rename(jars)


if __name__ == "__main__":
    try:
        print(f"Apache Cassandra {VERSION} is in {cassandra_jars()}, for {java()}")
    except Unavailable as why:
        raise SystemExit(f"tests on Apache Cassandra will be skipped: {why}") from None
