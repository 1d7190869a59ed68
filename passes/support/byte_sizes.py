"""Numbers of bytes as people write them: `60GiB`, `1.5 MB`, `4096`."""

import re

UNITS = {"b": 1} | {
    f"{prefix}{unit}": base**power
    for power, prefix in enumerate("kmgt", 1)
    for unit, base in (("b", 1000), ("ib", 1024))
}
UNIT_NAMES = "B, KB, MB, GB, TB and KiB, MiB, GiB, TiB"
EXPECTED = "a number of bytes, such as 60GiB"

_SIZE = re.compile(r"\s*(?P<whole>\d{1,18})(?P<part>\.\d{1,18})?\s*(?P<unit>[A-Za-z]*)\s*", re.A)


def byte_count(text: str) -> int:
    """The bytes that `text` means, rounded down. Raises ValueError when it means none."""
    found = _SIZE.fullmatch(text)
    if not found or (found["unit"] or "b").lower() not in UNITS:
        raise ValueError(f"`{text}` is not {EXPECTED}; the units are {UNIT_NAMES}")
    factor = UNITS[(found["unit"] or "b").lower()]
    return int(found["whole"]) * factor + int(float(found["part"] or 0) * factor)
