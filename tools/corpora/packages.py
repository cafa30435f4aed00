"""Files of pinned Debian packages: of the installed package, or of its .deb, downloaded and unpacked without root."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass


class Failure(Exception):
    """What the user is told in one line."""


@dataclass(frozen=True)
class Package:
    """One version of a package that is the same for all architectures; `sha256` is that of its .deb."""

    name: str
    version: str
    sha256: str

    @property
    def file(self):
        return f"{self.name}_{self.version.replace(':', '%3a')}_all.deb"


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def output_of(command, folder=None):
    """(exit status, standard output, standard error's last line); a program that is not there is a status of its own."""
    try:
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                             env={**os.environ, "LC_ALL": "C.UTF-8"})
    except FileNotFoundError:
        return 127, "", f"{command[0]} is not installed"
    said = [line for line in run.stderr.splitlines() if line.strip()]
    errors = [line for line in said if line.startswith("E:")] or said
    return run.returncode, run.stdout, errors[-1] if errors else ""


def is_installed(package):
    status, version, _ = output_of(["dpkg-query", "-W", "-f=${db:Status-Status} ${Version}", package.name])
    return status == 0 and version == f"installed {package.version}"


def download(package, store, say):
    """The package's .deb in `store`; one that is there already and whole is not downloaded again."""
    path = os.path.join(store, package.file)
    if os.path.exists(path) and sha256_of(path) == package.sha256:
        return path
    say(f"downloading {package.name} {package.version}")
    os.makedirs(store, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="part-", dir=store) as part:
        status, _, why = output_of(["apt-get", "download", "-q", "-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=60",
                                     f"{package.name}={package.version}"], part)
        found = [name for name in os.listdir(part) if name.endswith(".deb")]
        if status != 0 or len(found) != 1:
            raise Failure(f"cannot download the Debian package {package.name} {package.version}: {why or 'no file came'}"
                          " (apt-get update renews the lists of packages)")
        deb = os.path.join(part, found[0])
        digest = sha256_of(deb)
        if digest != package.sha256:
            raise Failure(f"{package.file}: found SHA-256 {digest}, wanted {package.sha256}")
        os.replace(deb, path)
    return path


def files_of(package, store, work, say):
    """A folder in which the package's files lie under their paths: / where it is installed, else one in `work`."""
    if is_installed(package):
        return "/"
    deb = download(package, store, say)
    root = os.path.join(work, package.name)
    status, _, why = output_of(["dpkg-deb", "-x", deb, root])
    if status != 0:
        shutil.rmtree(root, ignore_errors=True)
        raise Failure(f"cannot unpack {deb}: {why}")
    return root
