"""The way back from a module that passes have rewritten, for when a compiler refuses it or loses what they noted."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from jaxlib.mlir import ir

from paropt.census import census
from paropt.modules import bytecode_of
from paropt.participants import Layout
from paropt.passes.core.traversal import ops_of
from paropt.tags import Known, VerificationError, adds_tags, gaps, known_of
from paropt.totals import Traffic, traffic
from paropt.verification import Prediction, mismatches, prediction

T = TypeVar("T")


class Setback(NamedTuple):
    """Why the module as it was is compiled."""

    verdict: str  # on the passes
    reason: str  # one line


class Fallback:
    """Made of a module before the passes run, which it can compile in place of what they make of it.

    If `compare`, it does so too where the module as it was sends less.
    """

    def __init__(self, module: ir.Module, *, strict: bool, compare: bool = False) -> None:
        # A module for one device is not worth a copy: it has no mesh, and nothing is reduced.
        has_mesh = bool(ops_of(module.operation, "sdy.mesh"))
        self._bytecode = bytecode_of(module) if has_mesh else None
        self._known = known_of(module.operation) if has_mesh else Known()
        self._strict = strict
        self._compare = compare
        self._is_tagged = False
        self._original: ir.Module | None = None

    def is_needed(self, module: ir.Module) -> bool:
        """Whether there is something to look at in what a compiler makes of `module`, the result of the passes.

        That is where they noted that values are not reduced, and with `compare` anywhere. Raises VerificationError when
        it is noted of some, by them or by the program, but no more of all that are made of those.
        """
        if self._bytecode is None:
            return False
        self._is_tagged = adds_tags(module.operation, self._known)
        wrong = gaps(module.operation, self._known.gaps)
        if wrong:
            raise VerificationError(wrong[0])
        return self._is_tagged or self._compare

    def compiled(
        self,
        module: ir.Module,
        compile: Callable[[ir.Module], T],
        text_of: Callable[[T], str | None],
        rehearse: Callable[[bytes], object] = lambda _: None,
    ) -> tuple[T, Setback | None]:
        """What `compile` makes of `module`, and None; or else of the module as it was, and why. If strict, raises why.

        `text_of` gives the text of the optimized HLO. `rehearse` gets bytecode first; what it raises is a reason, too.
        """
        try:
            layout = Layout.of_module(module)  # compilers may change modules
            predicted = prediction(module.operation) if self._is_tagged else None
            rehearse(bytecode_of(module))
            made = compile(module)
            sent = _verified(predicted, text_of(made), layout)
        except Exception as error:  # whatever a compiler raises: it may compile the module as it was
            if self._strict:
                raise
            return compile(self._as_it_was(module.context)), Setback("failed in the compiler", reason_of(error))
        if not self._compare:
            return made, None
        try:
            alone = compile(self._as_it_was(module.context))
            before = traffic(census(text_of(alone) or "", layout))
        except Exception:  # whatever a compiler raises: it may not fit without passes
            return made, None
        if sent <= before:
            return made, None
        setback = Setback("sends more than XLA alone", f"{sent}, and {before} without passes")
        if self._strict:
            raise VerificationError(f"it {setback.verdict}: {setback.reason}")
        return alone, setback

    def _as_it_was(self, context: ir.Context) -> ir.Module:
        if self._original is None:  # kept, because jax looks executables up by the identity of their modules
            assert self._bytecode is not None
            self._original = ir.Module.parse(self._bytecode, context)
        return self._original


def _verified(predicted: Prediction | None, text: str | None, layout: Layout) -> Traffic:
    """What the executable with this text sends. Raises VerificationError unless it reduces what was predicted."""
    if text is None:
        raise VerificationError("the compiler does not show what it made of the program")
    collectives = census(text, layout)
    wrong = mismatches(predicted, collectives) if predicted is not None else []
    if wrong:
        raise VerificationError(wrong[0])
    return traffic(collectives)


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
