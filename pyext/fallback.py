"""The way back from a module that passes have rewritten, for when a compiler refuses it or loses what they noted."""

from collections.abc import Callable
from typing import TypeVar

from jaxlib.mlir import ir

from paropt.census import census
from paropt.modules import bytecode_of
from paropt.participants import Layout
from paropt.passes.core.traversal import ops_of
from paropt.tags import gaps, tags_of
from paropt.verification import Prediction, mismatches, prediction

T = TypeVar("T")


class VerificationError(RuntimeError):
    """A rewritten module, or what a compiler made of it, is not what it has to be; the message is one line."""


class Fallback:
    """Made of a module before the passes run, which it can compile in place of what they make of it."""

    def __init__(self, module: ir.Module, *, strict: bool) -> None:
        # A module for one device is not worth a copy: it has no mesh, and nothing is reduced.
        has_mesh = bool(ops_of(module.operation, "sdy.mesh"))
        self._bytecode = bytecode_of(module) if has_mesh else None
        self._tags = len(tags_of(module.operation)) if has_mesh else 0
        self._gaps = gaps(module.operation) if self._tags else []
        self._strict = strict
        self._original: ir.Module | None = None

    def is_needed(self, module: ir.Module) -> bool:
        """Whether the passes noted in `module` that values are not reduced.

        Raises VerificationError when they noted it of some, but not of all that are made of those.
        """
        if self._bytecode is None or len(tags_of(module.operation)) <= self._tags:
            return False
        wrong = gaps(module.operation, self._gaps)
        if wrong:
            raise VerificationError(wrong[0])
        return True

    def compiled(
        self,
        module: ir.Module,
        compile: Callable[[ir.Module], T],
        text_of: Callable[[T], str | None],
        rehearse: Callable[[bytes], object] = lambda _: None,
    ) -> tuple[T, str]:
        """What `compile` makes of `module`, and ""; or else of the module as it was, and why. If strict, raises why.

        `text_of` gives the text of the optimized HLO. `rehearse` gets bytecode first; what it raises is a reason, too.
        """
        try:
            predicted, layout = prediction(module.operation), Layout.of_module(module)  # compilers may change modules
            rehearse(bytecode_of(module))
            made = compile(module)
            _verify(predicted, text_of(made), layout)
            return made, ""
        except Exception as error:  # whatever a compiler raises: it may compile the module as it was
            if self._strict:
                raise
            reason = reason_of(error)
        return compile(self._as_it_was(module.context)), reason

    def _as_it_was(self, context: ir.Context) -> ir.Module:
        if self._original is None:  # kept, because jax looks executables up by the identity of their modules
            assert self._bytecode is not None
            self._original = ir.Module.parse(self._bytecode, context)
        return self._original


def _verify(predicted: Prediction, text: str | None, layout: Layout) -> None:
    """Raises VerificationError unless the executable with this text reduces what was predicted."""
    if text is None:
        raise VerificationError("the compiler does not show what it made of the program")
    wrong = mismatches(predicted, census(text, layout))
    if wrong:
        raise VerificationError(wrong[0])


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
