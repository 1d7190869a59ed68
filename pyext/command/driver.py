"""The driver of par-opt, after the command line: parse, run the passes, print. Runs in a child process."""

import contextlib
import os
import re
import shlex
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from jaxlib.mlir import ir

from paropt.certificates import certificate_json
from paropt.command.completion import completion
from paropt.command.expectations import expectations, mismatches
from paropt.command.listing import dialects, passes_and_pipelines, statistics
from paropt.command.options import Options
from paropt.command.reproducer import IGNORED, pipeline_of, reproducer
from paropt.modules import module_io
from paropt.modules.contract_check import broken
from paropt.modules.decisions import decided
from paropt.modules.module_io import Diagnostic, Module, ModuleError
from paropt.modules.offers import offered
from paropt.modules.summary import OFFER, Remarks, is_of_sums, shown, summary, with_nothing_found
from paropt.passes.support.context import make_context
from paropt.passes.support.pipeline import ANCHOR, Pipeline, PipelineError, Printing
from paropt.passes.support.plugins import PluginError, load_plugin
from paropt.passes.support.remarks import RefusedError, Remark, merged
from paropt.process.crashes import Progress
from paropt.verify.tags import gap_behind_passes, known_of

if TYPE_CHECKING:
    from paropt.command.audit_command import Request


class Failure(Exception):  # noqa: N818  an outcome of the run, told in one line
    """The run ends here; the message says why, in one line."""


@dataclass
class Chunk:
    """One module of the input, and its outcome."""

    number: int
    data: bytes  # padded with newlines, so that its lines are numbered as in the whole input
    output: bytes = b""
    failure: str = ""  # the line that is printed unless --verify-diagnostics expects it
    defect_in: str = ""  # our pass that failed, as opposed to the input
    diagnostics: list[Diagnostic] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    decisions: str = ""  # the table, with --decisions
    breaks: list[str] = field(default_factory=list)  # of the contract, with --verify-contract
    all_remarks: tuple[Remark, ...] = ()  # those that --remarks-filter leaves out, too
    before: bytes = b""  # with --audit and --check: the module as it was read, as bytecode
    after: Module | None = None  # and after the passes
    gap: str | None = None  # where the passes left it half marked


def run(options: Options, data: bytes, progress: Progress) -> int:
    """Runs the command that `options` (see `cli.parse_arguments`) give on the input `data`; returns the exit status."""
    driver = _Driver(options, data, progress)
    sys.excepthook = driver.report_defect
    try:
        driver.load_plugins()
        if options.lists:
            driver.show_lists()
            return 0
        return driver.rewrite()
    except (Failure, PipelineError, PluginError) as error:
        _say(f"error: {error}")
        return 1


def write_crash_reproducer(options: Options, data: bytes, chunk: int) -> int:
    """Writes a reproducer for chunk number `chunk`, which ended another process; returns the exit status."""
    driver = _Driver(options, data, Progress())
    driver.load_plugins()
    driver.pipeline = driver.read_pipeline()
    driver.write_reproducer(driver.chunks()[chunk], options.crash_reproducer)
    return 0


class _Driver:
    def __init__(self, options: Options, data: bytes, progress: Progress) -> None:
        self.options = options
        self.data = data
        self.progress = progress
        self.pipeline = Pipeline(())
        self.current: Chunk | None = None

    def load_plugins(self) -> None:
        sys.path.append(str(Path.cwd()))  # last, so that nothing there can shadow a module
        for name in self.options.load_pass_plugin:
            self.progress.note(0, f"importing plug-in `{name}`")
            load_plugin(name)

    def show_lists(self) -> None:
        if self.options.version:
            print(f"par-opt {metadata.version('paropt')}, jaxlib {metadata.version('jaxlib')}")
        if self.options.list_passes:
            print(passes_and_pipelines())
        if self.options.show_dialects:
            print(dialects())
        if self.options.completion:
            print(completion(self.options.completion))

    def rewrite(self) -> int:
        """Processes each chunk, and writes the output when all of them succeeded."""
        self.pipeline = self.read_pipeline()
        self._check_pipeline()
        if self.options.plan:
            return self._plan()
        request = self._audit_request()
        chunks = self.chunks()
        if self.options.emit_bytecode and len(chunks) > 1:
            raise Failure(f"--emit-bytecode writes one module, and the input has {len(chunks)}")
        succeeded = [self._process(chunk) for chunk in chunks]
        if not all(succeeded):
            return 1
        if self.options.check and not self._is_same(chunks[0]):
            return 1
        if self.options.certificate:
            written = certificate_json(chunks[0].all_remarks, str(self.pipeline)).encode()
            self._write(written, self.options.certificate, self.options.partial_certificate)
        separator = f"{self.options.split_input_file}\n".encode()
        output = separator.join(chunk.output for chunk in chunks)
        breaks = [line for chunk in chunks for line in chunk.breaks]
        for line in breaks:
            _say(f"contract broken: {line}")
        if request is None:
            self._write(output, self.options.output, self.options.partial_output)
            return 1 if breaks else 0
        status = self._audit(request, chunks[0])
        if self.options.output and not chunks[0].gap:
            self._write(output, self.options.output, self.options.partial_output)
        return 1 if breaks else status

    def _plan(self) -> int:
        """Writes the ranking to stdout, and the plan file where -o says."""
        from paropt.command.plan_command import ERRORS, Request, file_of  # here: most runs do not need it

        self.progress.note(0, "planning it")
        try:
            found = Request.of(self.options).plan(self.data, self.options.name)
        except ERRORS as error:
            raise Failure(str(error).removeprefix("plan: ")) from error
        print(found.html() if self.options.plan == "html" else found)
        if self.options.output:
            self._write(file_of(found), self.options.output, self.options.partial_output)
        return 0

    def _audit_request(self) -> "Request | None":
        """The request of --audit; None without it."""
        if not self.options.audit:
            return None
        from paropt.command.audit_command import ERRORS, Request  # here: most runs do not need it

        try:
            return Request.of(self.options)
        except ERRORS as error:
            raise Failure(str(error)) from error

    def _audit(self, request: "Request", chunk: Chunk) -> int:
        """Writes the report on `chunk`; returns 0, or 1 after lines of errors."""
        from paropt.command.audit_command import ERRORS, Audited

        assert chunk.after is not None, "the passes have run"
        passes = self.options.passes or str(self.pipeline)
        audited = Audited(chunk.before, chunk.after, passes, chunk.all_remarks)
        try:
            report = request.report(audited, lambda activity: self.progress.note(chunk.number, activity))
            rendered = request.rendered(report)
            exceeded = request.exceeded(report)
        except ERRORS as error:
            raise Failure(f"{self.options.name}: {error}") from error
        self._write(rendered, self.options.audit_output, self.options.partial_audit)
        for line in report.mismatches:
            _say(f"results would be wrong: {line}")
        for line in exceeded:
            _say(f"budget exceeded: {line}")
        return 1 if exceeded or report.mismatches else 0

    def _is_same(self, chunk: Chunk) -> bool:
        """Runs the module of `chunk` before and after the passes; prints the comparison."""
        from paropt.check import CheckError, compare  # here: most runs do not need it

        assert chunk.after is not None, "the passes have run"
        self.progress.note(chunk.number, "checking it")
        try:
            found = compare(chunk.before, module_io.bytecode_of(chunk.after), str(self.pipeline))
        except (CheckError, ModuleError) as error:
            raise Failure(f"{self.options.name}: it could not be checked: {error}") from error
        _say(f"{'check' if found.is_same else 'error: check'}: {found}")
        return found.is_same

    def read_pipeline(self) -> Pipeline:
        if not self.options.run_reproducer:
            return Pipeline.parse(self.options.passes or "")
        text = pipeline_of(self.data.decode(errors="replace"))
        if text is None:
            raise Failure(f"{self.options.name}: no reproducer: it has no `mlir_reproducer` with a pipeline at its end")
        return Pipeline.parse(text)

    def _check_pipeline(self) -> None:
        """Complains about the pipeline before any module is read."""
        filtered = self.options.mlir_print_ir_before | self.options.mlir_print_ir_after
        names = self.pipeline.pass_names
        for name in sorted(filtered.difference(names)):
            runs = f"it runs {', '.join(names)}" if names else "it is empty"
            raise Failure(f"no pass called `{name}` in the pipeline to print before or after; {runs}")
        with _native_stderr_muted():  # MLIR explains a wrong option there, in several lines
            self.pipeline.manager(make_context(), [])
        if self.options.dump_pass_pipeline:
            print(f"builtin.module({self.pipeline})", file=sys.stderr)

    def chunks(self) -> list[Chunk]:
        marker = self.options.split_input_file
        if marker is None or self.data.startswith(module_io.BYTECODE_MAGIC):
            return [Chunk(0, self.data)]
        lines = self.data.split(b"\n")
        cuts = [i for i, line in enumerate(lines) if line.rstrip() == marker.encode()]
        starts = [0, *(cut + 1 for cut in cuts)]
        ends = [*cuts, len(lines)]
        return [
            Chunk(number, b"\n" * start + b"\n".join(lines[start:end]) + b"\n" * (end < len(lines)))
            for number, (start, end) in enumerate(zip(starts, ends, strict=True))
        ]

    def _process(self, chunk: Chunk) -> bool:
        """Parses, rewrites and prints `chunk`; reports on stderr. False when that failed."""
        self.current = chunk
        try:
            chunk.output = self._rewritten(chunk)
        except ModuleError as error:
            chunk.failure = str(error)
            chunk.diagnostics += error.diagnostics
        except RefusedError as error:
            chunk.failure = f"{self.options.name}: {error}"
        chunk.all_remarks = tuple(chunk.remarks)
        chunk.remarks = self._chosen([remark for remark in chunk.remarks if remark.pass_name != OFFER])
        for diagnostic in (d for g in chunk.diagnostics for d in (g, *g.notes) if self.options.debug):
            print(f"{diagnostic.severity}: {diagnostic}", file=sys.stderr)
        return self._verified(chunk) if self.options.verify_diagnostics else self._reported(chunk)

    def _rewritten(self, chunk: Chunk) -> bytes:
        """The module of `chunk` after the pipeline, as it is written. Raises ModuleError."""
        options, name = self.options, self.options.name
        context = make_context(allow_unregistered_dialects=options.allow_unregistered_dialect)

        def collect(given: ir.Diagnostic) -> bool:
            diagnostic = module_io.diagnostic_of(given, name)
            if diagnostic.message != IGNORED:
                chunk.diagnostics.append(diagnostic)
            return True

        def by(pipeline: Pipeline) -> list[Remark]:
            again = module_io.parse(chunk.data, name, context, implicit_module=not options.no_implicit_module)
            return pipeline.run(again.operation)

        handler: Any = context.attach_diagnostic_handler(collect)
        try:
            self.progress.note(chunk.number, "parsing it")
            with _native_stderr_muted():  # MLIR's reader may crash, and the C++ runtime then has its say, too
                module = module_io.parse(chunk.data, name, context, implicit_module=not options.no_implicit_module)
            self._require_readable(module)
            if options.mlir_generate_reproducer:
                self.write_reproducer(chunk, options.mlir_generate_reproducer)
            if options.audit or options.check:
                chunk.before, chunk.after = module_io.bytecode_of(module), module
            if options.decisions:
                self.progress.note(chunk.number, "deciding")
                chunk.decisions = str(decided(self.pipeline, by))
            known = known_of(module.operation)
            for step in self._steps():
                self._run(step, module, chunk)
            chunk.gap = gap_behind_passes(module.operation, known)
            if chunk.gap and not options.audit:  # whose report says it
                line = f"{name}: the passes leave it half marked, and it is not written: {chunk.gap}"
                raise ModuleError([], line)
            chunk.remarks = with_nothing_found(chunk.remarks, module.operation, self.pipeline)
            if options.audit or self._wants_remarks:
                self.progress.note(chunk.number, "counting what stays in loops")
                chunk.remarks = offered(chunk.remarks, module.operation, self.pipeline, by)
            if options.verify_contract:
                self.progress.note(chunk.number, "verifying its contract")
                chunk.breaks = self._breaks(module)
            self.progress.note(chunk.number, "printing it")
            return self._printed(module)
        finally:
            handler.detach()

    def _require_readable(self, module: Module) -> None:
        """Raises ModuleError for a module that can only be printed: another op, as --no-implicit-module leaves it, and
        attributes of a form that we do not expect."""
        options, found = self.options, module.operation.name
        reads = options.audit or options.check or options.verify_contract or options.decisions
        if (reads or self.pipeline.stages) and found != ANCHOR:
            raise ModuleError([], f"{options.name}: passes run on a {ANCHOR}, and the top-level operation is {found}")
        if reads or self.pipeline.has_ours:
            module_io.require_checked(module, options.name)

    def _breaks(self, module: Module) -> list[str]:
        with module_io.refusing(module.operation.context, self.options.name, "its shardings cannot be propagated"):
            return broken(module)

    def _steps(self) -> list[Pipeline]:
        """One step for each pass, to know which one fails; but one report, or numbered files, need one manager."""
        options = self.options
        filtered = options.mlir_print_ir_before | options.mlir_print_ir_after
        counted = options.mlir_timing or options.mlir_print_ir_tree_dir
        return [self.pipeline] if counted and not filtered else self.pipeline.steps()

    def _run(self, step: Pipeline, module: Module, chunk: Chunk) -> None:
        self.progress.note(chunk.number, f"running {step}")
        options = self.options
        printing = Printing(
            before=options.mlir_print_ir_before,
            after=options.mlir_print_ir_after,
            before_all=options.mlir_print_ir_before_all,
            after_all=options.mlir_print_ir_after_all,
            after_change=options.mlir_print_ir_after_change,
            after_failure=options.mlir_print_ir_after_failure,
            module_scope=options.mlir_print_ir_module_scope,
            debug_info=options.mlir_print_debuginfo,
            generic=options.mlir_print_op_generic,
            elide_above=options.mlir_elide_elementsattrs_if_larger,
            tree_dir=options.mlir_print_ir_tree_dir,
        )
        manager = step.manager(
            module.operation.context,
            chunk.remarks,
            printing=printing,
            verify_each=options.verify_each,
            timing=options.mlir_timing,
        )
        try:
            with module_io.refusing(module.operation.context, options.name, f"pass {step} failed"):
                manager.run(module.operation)
        except ModuleError:
            if any(stage.declared for stage in step.stages):
                chunk.defect_in = str(step)
            raise

    def _printed(self, module: Module) -> bytes:
        options = self.options
        if options.emit_bytecode:
            return module_io.bytecode_of(module)
        text: Any = module.operation.get_asm(
            binary=True,
            large_elements_limit=options.mlir_elide_elementsattrs_if_larger,
            enable_debug_info=options.mlir_print_debuginfo,
            print_generic_op_form=options.mlir_print_op_generic,
            use_local_scope=options.mlir_print_local_scope,
            assume_verified=options.verify_each,
        )
        return text.rstrip(b"\n") + b"\n"

    def _chosen(self, remarks: list[Remark]) -> list[Remark]:
        """`remarks` once each, in program order, of the passes asked for: by a filter, or by name in the pipeline."""
        wanted = self.options.remarks_filter
        found = merged(remark for remark in remarks if wanted is None or wanted.search(remark.pass_name))
        once = found if wanted else shown(found, re.findall(r"[\w-]+", self.options.passes or ""))
        return sorted(once, key=lambda remark: remark.source[:3])

    def _summary(self, chunk: Chunk) -> list[str]:
        said = [Remarks(chunk.all_remarks).offer]
        said += [summary(merged(chunk.all_remarks))] if is_of_sums(self.pipeline) else []
        return [f"{self.options.name}: remark: {line}" for line in said if line]

    @property
    def _wants_remarks(self) -> bool:
        return bool(self.options.remarks or self.options.remarks_filter)

    def _reported(self, chunk: Chunk) -> bool:
        for diagnostic in chunk.diagnostics:
            if diagnostic.severity != "error":
                print(f"{diagnostic.position}: {diagnostic.severity}: {diagnostic.message}", file=sys.stderr)
        if self.options.mlir_pass_statistics:
            print(statistics(self.pipeline.pass_names, chunk.all_remarks), file=sys.stderr)
        if chunk.decisions:
            print(chunk.decisions, file=sys.stderr)
        if self._wants_remarks:
            head = [] if self.options.remarks_filter else self._summary(chunk)
            lines = [*head, *chunk.remarks]
            print(*lines, sep="\n", end="\n" * bool(lines), file=sys.stderr)
        if chunk.defect_in:
            _say(f"internal error in {chunk.defect_in}: {chunk.failure}")
            self.write_reproducer(chunk, self.options.crash_reproducer)
        elif chunk.failure:
            _say(f"error: {chunk.failure}")
            if self.options.crash_reproducer and self.progress.activity.startswith("running"):
                self.write_reproducer(chunk, self.options.crash_reproducer)
        return not chunk.failure

    def _verified(self, chunk: Chunk) -> bool:
        name = self.options.name
        try:
            expected = expectations(chunk.data.decode(errors="replace"))
        except ValueError as error:
            raise Failure(f"{name}:{error}") from error
        given = list(chunk.diagnostics)
        if self._wants_remarks or any(e.severity == "remark" for e in expected):
            given += [
                Diagnostic("remark", r.source._replace(file=r.source.file or name), r.message) for r in chunk.remarks
            ]
        if chunk.failure and not chunk.diagnostics:
            _say(f"error: {chunk.failure}")
            return False
        problems = list(mismatches(expected, given, name))
        for problem in problems:
            _say(f"error: {problem}")
        return not problems

    def _write(self, data: bytes, path: Path | None, partial: Path | None) -> None:
        """Writes `data` to `path`, by way of `partial` where that is given, or to the standard output."""
        try:
            if not path:
                sys.stdout.buffer.write(data)
                sys.stdout.buffer.flush()
            elif not partial:
                path.write_bytes(data)
            else:
                partial.write_bytes(data)
                if path.exists():
                    shutil.copymode(path, partial)
                partial.replace(path.resolve())
        except OSError as error:
            raise Failure(f"cannot write '{path or 'the standard output'}': {error.strerror}") from error

    def write_reproducer(self, chunk: Chunk, path: str | None) -> None:
        """Writes the module of `chunk` as it was read, and the pipeline, to `path` (None: a temporary file)."""
        module = module_io.parse(
            chunk.data,
            self.options.name,
            make_context(allow_unregistered_dialects=self.options.allow_unregistered_dialect),
        )
        if not path:
            handle, path = tempfile.mkstemp(prefix="par-opt-", suffix=".mlir")
            os.close(handle)
        flags = [f"--load-pass-plugin={name}" for name in self.options.load_pass_plugin]
        flags += ["--allow-unregistered-dialect"] * self.options.allow_unregistered_dialect
        text: Any = module.operation.get_asm(enable_debug_info=True, assume_verified=True)
        command = shlex.join(["par-opt", *flags, "--run-reproducer", path])
        try:
            Path(path).write_text(reproducer(text, str(self.pipeline), command, verify_each=self.options.verify_each))
        except OSError as error:
            raise Failure(f"cannot write '{path}': {error.strerror}") from error
        _say(f"note: a reproducer was written to {path}")

    def report_defect(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        """Python calls this for an uncaught exception: a defect of ours or of a plug-in, told in one line."""
        if self.options.debug:
            traceback.print_exception(kind, error, trace)
        activity = self.progress.activity
        frames = traceback.extract_tb(trace)
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        what = " ".join(f"{kind.__name__}: {error}".split()).removesuffix(":") + where
        if kind is MemoryError:
            _say(f"error: {self.options.name}: out of memory while {activity}")
        elif activity.startswith("importing"):
            _say(f"error: {activity}: {what}")
        elif not activity.startswith("running"):
            _say(f"internal error while {activity or 'starting'}: {what}")
        else:
            _say(f"internal error in {activity.removeprefix('running ')}: {what}")
            if self.current:
                self.write_reproducer(self.current, self.options.crash_reproducer)


def _say(line: str) -> None:
    print(f"par-opt: {line}", file=sys.stderr)


@contextlib.contextmanager
def _native_stderr_muted() -> Iterator[None]:
    """Drops the output of native code to the standard error meanwhile."""
    sys.stderr.flush()
    kept = os.dup(2)
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
