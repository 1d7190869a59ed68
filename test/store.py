"""What tests have found before, on disk: verdicts and executables, each a pure function of what its key is made of.

A key is a hash of everything that the answer depends on: texts, seeds, versions, flags, and the source of what answers.
One hit in `SAMPLE`, others in each run, is not believed: it is worked out again, and has to come out the same.

`PAROPT_TEST_STORE` names the folder, by default `.test-store` beside pyproject.toml; empty, nothing is stored. By night
nothing is.
"""

import hashlib
import importlib.metadata
import os
import platform
import zlib
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
SAMPLE = 20
BY_NIGHT = bool(int(os.environ.get("PAROPT_PROGRAMS", "0")))
_FOLDER = os.environ.get("PAROPT_TEST_STORE", str(ROOT / ".test-store"))
_RUN = os.urandom(8)  # the sample of this process
_PACKAGES = ("jax", "jaxlib", "libtpu", "jax-cuda13-pjrt", "nvidia-cuda-nvcc", "numpy", "ml_dtypes")
_READ_BY_COMPILERS = ("XLA_", "JAX_", "TPU_", "LIBTPU_", "CUDA_")


def key(*parts: object, sources: tuple[Path, ...]) -> str:
    """The name of what is found for `parts`, by the code in `sources`, with the versions and flags of this process."""
    digest = hashlib.sha256()
    for part in (*parts, *versions(), *(_source(path) for path in sources)):
        data = part if isinstance(part, bytes) else repr(part).encode()
        digest.update(b"%d:" % len(data) + data)
    return digest.hexdigest()


def get(name: str) -> bytes | None:
    """What is stored under a key."""
    try:
        return zlib.decompress(_file(name).read_bytes()) if is_used() else None
    except (FileNotFoundError, zlib.error):  # zlib.error: a file that was cut off
        return None


def put(name: str, found: bytes = b"") -> None:
    """Stores what was found; a reader sees all of it or nothing."""
    if not is_used():
        return
    file = _file(name)
    file.parent.mkdir(parents=True, exist_ok=True)
    unfinished = file.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(zlib.compress(found, 1))
    unfinished.replace(file)


def is_doubted(name: str) -> bool:
    """Is this hit in the sample that is worked out again?"""
    return hashlib.sha256(_RUN + name.encode()).digest()[0] % SAMPLE == 0


def flags(environment: os._Environ[str] | dict[str, str] = os.environ) -> list[tuple[str, str]]:
    """The environment variables that compilers read."""
    return sorted(item for item in environment.items() if item[0].startswith(_READ_BY_COMPILERS))


@cache
def versions() -> tuple[str, ...]:
    """Of everything that answers, beside the sources; the processor's kind, for which code is made."""
    found = [f"{each.name}=={each.version}" for each in map(_distribution, _PACKAGES) if each]
    return (*found, platform.machine(), platform.python_version())


def _distribution(name: str) -> importlib.metadata.Distribution | None:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def _source(path: Path) -> bytes:
    return path.read_bytes()


def is_used() -> bool:
    return bool(_FOLDER) and not BY_NIGHT


def _file(name: str) -> Path:
    return Path(_FOLDER) / name[:2] / name[2:]
