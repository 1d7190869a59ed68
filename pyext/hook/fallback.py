"""The fallback from a rewritten module, for when a compiler refuses it or loses its constraints."""

import functools
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from jaxlib.mlir import ir

from paropt.hlo.census import Collective, census
from paropt.hlo.participants import Layout
from paropt.hlo.traffic import Traffic, traffic
from paropt.modules.module_io import bytecode_of
from paropt.passes.sharding.annotations import LEFT_OUT
from paropt.passes.support.remarks import Remark
from paropt.passes.support.traversal import ops_of
from paropt.verify.predictions import Prediction, prediction
from paropt.verify.tags import Known, VerificationError, adds_tags, gaps, known_of
from paropt.verify.verification import Mismatch, doubts

T = TypeVar("T")


class Setback(NamedTuple):
    """Why the module as it was is compiled, or one with fewer sums rewritten."""

    verdict: str  # on the passes
    reason: str  # one line
    stays: str = "the program"
    remarks: tuple[Remark, ...] = ()  # of the passes, where they ran again


class Fallback:
    """Made of a module before the passes run, which it can compile in place of the rewritten one.

    `rerun` runs them on such a module again. If `compare`, it does so too where the module as it was sends less.
    """

    def __init__(
        self,
        module: ir.Module,
        *,
        strict: bool,
        compare: bool = False,
        rerun: Callable[[ir.Module], tuple[Remark, ...]] | None = None,
    ) -> None:
        # A module for one device is not worth a copy: it has no mesh, and nothing is reduced.
        has_mesh = bool(ops_of(module.operation, "sdy.mesh"))
        self._bytecode = bytecode_of(module) if has_mesh else None
        self._known = known_of(module.operation) if has_mesh else Known()
        self._strict = strict
        self._compare = compare
        self._rerun = rerun
        self._is_tagged = False
        self._original: ir.Module | None = None

    @property
    def has_mesh(self) -> bool:
        """Whether the program is one for several devices."""
        return self._bytecode is not None

    def fresh(self, context: ir.Context) -> ir.Module:
        """The module as it was, another one each time."""
        assert self._bytecode is not None
        return ir.Module.parse(self._bytecode, context)

    def is_needed(self, module: ir.Module) -> bool:
        """Whether there is something to look at in the executable of `module`, the result of the passes.

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
        """The result of `compile` on `module`, and None; or else on the module as it was, and why. If strict, raises
        why.

        Where the executable shows that the compiler lost the constraints of some sums, those are left out first.
        `text_of` gives the text of the optimized HLO. `rehearse` gets bytecode first; its error is a reason, too.
        """
        context = module.context
        as_it_was = functools.cache(lambda: compile(self._as_it_was(context)))
        compiling = _Compiling(compile, text_of, rehearse, as_it_was)
        predicted = None
        try:
            if self._is_tagged:
                predicted = prediction(module.operation)  # compilers may change modules
            made, sent = compiling.verified(module, predicted)
            setback = None
        except Exception as error:  # whatever a compiler raises: it may compile the module as it was
            if self._strict:
                raise
            without = self._without(predicted, error, context, compiling)
            if without is None:
                return as_it_was(), Setback("failed in the compiler", reason_of(error))
            made, sent, setback = without
        if not self._compare:
            return made, setback
        try:
            alone = as_it_was()
            before = traffic(census(text_of(alone) or "", Layout.of_module(self._as_it_was(context))))
        except Exception:  # whatever a compiler raises: it may not fit without passes
            return made, setback
        if sent <= before:
            return made, setback
        setback = Setback("sends more than XLA alone", f"{sent}, and {before} without passes")
        if self._strict:
            raise VerificationError(f"it {setback.verdict}: {setback.reason}")
        return alone, setback

    def _without(
        self, predicted: Prediction | None, lost: Exception, context: ir.Context, compiling: "_Compiling[T]"
    ) -> tuple[T, Traffic, Setback] | None:
        """The same of the module as it was, rewritten without the sums in doubt; None where nothing else is left."""
        found = lost.mismatches if isinstance(lost, VerificationError) else ()
        places = _in_doubt(predicted, found) if predicted is not None else []
        if self._rerun is None or self._bytecode is None or not places:
            return None
        try:
            module = ir.Module.parse(self._bytecode, context)
            module.operation.attributes[LEFT_OUT] = _texts(places, context)
            remarks = self._rerun(module)
            if LEFT_OUT in module.operation.attributes:  # no pass looked at it
                return None
            if not self.is_needed(module):
                return None
            made, sent = compiling.verified(module, prediction(module.operation))
        except Exception:  # whatever a pass or a compiler raises: there is still the module as it was
            return None
        return made, sent, Setback("lost some sums in the compiler", reason_of(lost), "each of these sums", remarks)

    def _as_it_was(self, context: ir.Context) -> ir.Module:
        if self._original is None:  # kept, because jax looks executables up by the identity of their modules
            assert self._bytecode is not None
            self._original = ir.Module.parse(self._bytecode, context)
        return self._original


class _Compiling(NamedTuple, Generic[T]):
    """How to compile a module and look at the executable."""

    compile: Callable[[ir.Module], T]
    text_of: Callable[[T], str | None]
    rehearse: Callable[[bytes], object]
    as_it_was: Callable[[], T]  # the executable of the program without the passes

    def verified(self, module: ir.Module, predicted: Prediction | None) -> tuple[T, Traffic]:
        """The executable of `module`, and the bytes that it sends. Raises VerificationError unless its reductions are
        those predicted.

        Reductions that the baseline executable has, too, are no fault of the passes: that is compiled where there is
        something to explain.
        """
        layout = Layout.of_module(module)  # compilers may change modules
        self.rehearse(bytecode_of(module))
        made = self.compile(module)
        text = self.text_of(made)
        if text is None:
            raise VerificationError("the compiler does not show what it made of the program")
        collectives = census(text, layout)
        found = doubts(predicted, collectives) if predicted is not None else []
        if predicted is not None and found:
            found = doubts(predicted, collectives, self._alone(layout))
        if found:
            raise VerificationError(found[0].text, found)
        return made, traffic(collectives)

    def _alone(self, layout: Layout) -> tuple[Collective, ...]:
        try:
            return census(self.text_of(self.as_it_was()) or "", layout)
        except Exception:  # whatever a compiler raises: it explains nothing then
            return ()


def _in_doubt(predicted: Prediction, found: Sequence[Mismatch]) -> list[str]:
    """The places of the sums that may be lost; none where these are all."""
    moved = predicted.moved
    places = {place for key, each in moved.items() if any(m.is_of(key) for m in found) for place in each.places}
    others = {place for each in moved.values() for place in each.places} - places
    return sorted(places) if others else []


def _texts(texts: list[str], context: ir.Context) -> ir.Attribute:
    return ir.ArrayAttr.get([ir.StringAttr.get(text, context) for text in texts], context)


def reason_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0]
