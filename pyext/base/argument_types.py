"""Arguments of a type that a public function does not take: one line that names the argument and what is right."""


def require_type(value: object, types: type | tuple[type, ...], argument: str, expected: str) -> None:
    """Raises TypeError where `value`, of the `argument`, is none of `types`. A bool is no number."""
    is_flag = isinstance(value, bool) and bool not in (types if isinstance(types, tuple) else (types,))
    if is_flag or not isinstance(value, types):
        raise TypeError(f"{argument}: expected {expected}, got {value!r}")
