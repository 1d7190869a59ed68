"""The text of options that give mesh axes numbers, as `data:8,fsdp:1`.

Tests: test/unit/passes/deferral/test_holding_plan.py, test/passes/hoist-gathers-link-cost.mlir.
"""


def axis_numbers(text: str) -> dict[str, int]:
    """The number of each axis in `text`. Raises ValueError where one has none of at least 1, or several."""
    found: dict[str, int] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, number = (each.strip() for each in part.rpartition(":"))
        if not name or name in found or not number.isdecimal() or int(number) < 1:
            raise ValueError(text)
        found[name] = int(number)
    return found


def checked(text: str) -> str:
    """`text` as it is. Raises ValueError where it gives no numbers to axes."""
    axis_numbers(text)
    return text
