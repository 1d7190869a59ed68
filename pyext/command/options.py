"""The options of par-opt: spellings, values, help. `paropt.command.option_parser` reads them."""

import argparse
import dataclasses
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args

from paropt.planning.goals import Objective

SPLIT_MARKER = "// -----"
_SHELLS = ("bash", "zsh")

_AUDIT_FORMS = ("text", "json", "html", "png")
_PLAN_FORMS = ("text", "html")


def _output(text: str) -> Path | None:
    """A path; None for the standard output."""
    return None if text == "-" else Path(text)


def _flag(text: str) -> bool:
    values = {"0": False, "false": False, "1": True, "true": True}
    if text not in values:
        raise argparse.ArgumentTypeError(f"'{text}' is neither 0 nor 1")
    return values[text]


def _names(text: str) -> frozenset[str]:
    return frozenset(name.strip() for name in text.split(","))


def _regex(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no regular expression: {error}") from error


class Row(NamedTuple):
    """The arguments of `add_argument` for an option, and the group of the help that it stands in."""

    group: str
    spellings: tuple[str, ...]  # none for the input file
    told: dict[str, Any]


class _Group(NamedTuple):
    """A group of the help, which makes the rows of its options."""

    title: str

    def switch(self, spelling: str, help: str) -> Row:
        """Of an option without a value."""
        return Row(self.title, (spelling,), {"action": "store_true", "help": help})

    def value(self, *spellings: str, **told: Any) -> Row:
        """Of an option with a value; it may be given once, unless its action is to append."""
        return Row(self.title, spellings, told)


_FILES = _Group("input and output")
_PASSES = _Group("passes")
_AUDIT = _Group("audit of what XLA makes of the module")
_PLAN = _Group("plan for a cluster")
_DIAGNOSTICS = _Group("remarks and diagnostics")
_PRINTING = _Group("form of the output, and of the IR dumps")
_DUMPS = _Group("IR dumps and timing, to stderr")
_FAILURES = _Group("when something fails")


@dataclass(frozen=True)
class Options:
    """A command line that was read: a field for each option, with its row, in the order of the help."""

    input: Annotated[
        str, _FILES.value(nargs="?", action="store", metavar="FILE", help="MLIR text or bytecode (default: stdin)")
    ] = "-"
    output: Annotated[
        Path | None, _FILES.value("-o", type=_output, metavar="FILE", help="write here, on success only")
    ] = None
    split_input_file: Annotated[
        str | None,
        _FILES.value(
            "--split-input-file",
            metavar="[=MARKER]",
            help=f"each part between lines MARKER (default: `{SPLIT_MARKER}`) is a module of its own",
        ),
    ] = None
    emit_bytecode: Annotated[bool, _FILES.switch("--emit-bytecode", "write MLIR bytecode")] = False
    allow_unregistered_dialect: Annotated[
        bool, _FILES.switch("--allow-unregistered-dialect", "read operations of dialects that are not known")
    ] = False
    no_implicit_module: Annotated[
        bool, _FILES.switch("--no-implicit-module", "put no module around what is none: FILE holds one operation")
    ] = False
    passes: Annotated[
        str | None,
        _PASSES.value(
            "-p",
            "--passes",
            "--pass-pipeline",
            metavar="PIPELINE",
            help="passes and named pipelines to run, `a{o=v o2=w},b` or `builtin.module(a,b)` (default: none)",
        ),
    ] = None
    load_pass_plugin: Annotated[
        tuple[str, ...],
        _PASSES.value(
            "--load-pass-plugin",
            action="append",
            metavar="MODULE",
            help="import a Python module that registers passes, found on PYTHONPATH or in the current directory",
        ),
    ] = ()
    list_passes: Annotated[bool, _PASSES.switch("--list-passes", "list passes, their options and named pipelines")] = (
        False
    )
    dump_pass_pipeline: Annotated[
        bool, _PASSES.switch("--dump-pass-pipeline", "print the pipeline to stderr before it runs")
    ] = False
    verify_each: Annotated[
        bool,
        _PASSES.value(
            "--verify-each", type=_flag, metavar="[=0|1]", help="verify the module after each pass (default: 1)"
        ),
    ] = True
    verify_contract: Annotated[
        bool,
        _PASSES.switch(
            "--verify-contract",
            "after the passes, check that state, gradients and what replaces them are sharded alike, as Shardy would "
            "shard them; each break is one line, and the exit status 1",
        ),
    ] = False
    show_dialects: Annotated[bool, _PASSES.switch("--show-dialects", "list the dialects that can be read")] = False
    version: Annotated[bool, _PASSES.switch("--version", "print the versions of paropt and jaxlib")] = False
    completion: Annotated[
        str | None,
        _PASSES.value(
            "--completion",
            choices=_SHELLS,
            metavar="SHELL",
            help="print a script that completes options and passes: source <(par-opt --completion=bash)",
        ),
    ] = None
    audit: Annotated[
        str | None,
        _AUDIT.value(
            "--audit",
            choices=_AUDIT_FORMS,
            metavar="[=FORM]",
            help="compile the module as it is and after the passes, and report what both communicate, as text, json, "
            "html or png (default: text); the module itself is written only where -o says",
        ),
    ] = None
    target: Annotated[
        tuple[str, ...],
        _AUDIT.value(
            "--target",
            action="append",
            metavar="TARGET",
            help="what to compile for, as in cpu:8, tpu:v5e:2x4 or gpu:h100:1x1x8; may be repeated (default: as many "
            "CPU devices as the module has partitions)",
        ),
    ] = ()
    audit_output: Annotated[
        Path | None,
        _AUDIT.value("--audit-output", type=Path, metavar="FILE", help="write the report here (default: stdout)"),
    ] = None
    fail_if: Annotated[
        tuple[str, ...],
        _AUDIT.value(
            "--fail-if",
            action="append",
            metavar="CONDITION",
            help="exit with status 1 if it holds after the passes, as in 'sync_in_loop > 0', 'peak_memory > 2GiB' or "
            "'new.collectives > 0'; docs/audit.md lists the names; may be repeated",
        ),
    ] = ()
    estimate: Annotated[
        str | None,
        _AUDIT.value(
            "--estimate",
            metavar="[=FILE]",
            help="also estimate the step time before and after, from the schedules of the executables and figures "
            "of the machine, or those in a TOML file of your own; docs/costs.md",
        ),
    ] = None
    audit_baseline: Annotated[
        Path | None,
        _AUDIT.value(
            "--audit-baseline", type=Path, metavar="FILE", help="compare with an earlier report of --audit=json"
        ),
    ] = None
    plan: Annotated[
        str | None,
        _PLAN.value(
            "--plan",
            choices=_PLAN_FORMS,
            metavar="[=FORM]",
            help="propose meshes, shardings and policies for the module, a step of one device, compile them for "
            "--target, and write their ranking to stdout, as text or html (default: text); -o writes the best, a "
            "rules file of annotate-shardings; docs/planning.md",
        ),
    ] = None
    memory: Annotated[
        str | None,
        _PLAN.value(
            "--memory", metavar="BYTES", help="what the step may take per device, with a unit as in 80GiB, or auto"
        ),
    ] = None
    objective: Annotated[
        str | None,
        _PLAN.value(
            "--objective",
            choices=get_args(Objective),
            help="what the plan minimises: the estimated seconds of a step (default), or the bytes that it sends",
        ),
    ] = None
    plan_cache: Annotated[
        str | None,
        _PLAN.value("--plan-cache", metavar="DIR", help="keep what is found of each candidate there for the next plan"),
    ] = None
    decisions: Annotated[
        bool,
        _DIAGNOSTICS.switch("--decisions", "print what is decided (default: by grad-sync) of each array, to stderr"),
    ] = False
    remarks: Annotated[
        bool, _DIAGNOSTICS.switch("--remarks", "print what each pass did, and why not, to stderr in program order")
    ] = False
    remarks_filter: Annotated[
        re.Pattern[str] | None,
        _DIAGNOSTICS.value(
            "--remarks-filter",
            type=_regex,
            metavar="REGEX",
            help="only of passes whose name matches; implies --remarks",
        ),
    ] = None
    check: Annotated[
        bool,
        _DIAGNOSTICS.switch(
            "--check",
            "run the module as it is and after the passes on simulated devices, with made-up data, and say "
            "on stderr what was compared; exit with status 1 if results differ; docs/check.md",
        ),
    ] = False
    certificate: Annotated[
        Path | None,
        _DIAGNOSTICS.value(
            "--certificate",
            type=Path,
            metavar="FILE",
            help="write as JSON, for each reduction that moved, from where to where, and the laws and facts that allow "
            "it; docs/certificate.md",
        ),
    ] = None
    verify_diagnostics: Annotated[
        bool,
        _DIAGNOSTICS.switch(
            "--verify-diagnostics",
            "check errors, warnings and remarks against comments `// expected-error @+1 {{text}}` in the input; "
            "remarks take part with --remarks, and in modules with an `expected-remark`",
        ),
    ] = False
    mlir_print_debuginfo: Annotated[bool, _PRINTING.switch("--mlir-print-debuginfo", "print locations")] = False
    mlir_print_op_generic: Annotated[
        bool, _PRINTING.switch("--mlir-print-op-generic", "print the generic form of operations")
    ] = False
    mlir_print_local_scope: Annotated[
        bool, _PRINTING.switch("--mlir-print-local-scope", "print locations and attributes in place, not as aliases")
    ] = False
    mlir_elide_elementsattrs_if_larger: Annotated[
        int | None,
        _PRINTING.value(
            "--mlir-elide-elementsattrs-if-larger", type=int, metavar="N", help="leave out constants above N elements"
        ),
    ] = None
    mlir_print_ir_before: Annotated[
        frozenset[str],
        _DUMPS.value("--mlir-print-ir-before", type=_names, metavar="PASS,...", help="before these passes"),
    ] = frozenset()
    mlir_print_ir_before_all: Annotated[bool, _DUMPS.switch("--mlir-print-ir-before-all", "before each pass")] = False
    mlir_print_ir_after: Annotated[
        frozenset[str],
        _DUMPS.value("--mlir-print-ir-after", type=_names, metavar="PASS,...", help="after these passes"),
    ] = frozenset()
    mlir_print_ir_after_all: Annotated[bool, _DUMPS.switch("--mlir-print-ir-after-all", "after each pass")] = False
    mlir_print_ir_after_change: Annotated[
        bool, _DUMPS.switch("--mlir-print-ir-after-change", "after each pass that changed something")
    ] = False
    mlir_print_ir_after_failure: Annotated[
        bool, _DUMPS.switch("--mlir-print-ir-after-failure", "after a pass that failed")
    ] = False
    mlir_print_ir_module_scope: Annotated[
        bool, _DUMPS.switch("--mlir-print-ir-module-scope", "the whole module, also for a pass on functions")
    ] = False
    mlir_print_ir_tree_dir: Annotated[
        str | None,
        _DUMPS.value(
            "--mlir-print-ir-tree-dir", metavar="DIR", help="write these dumps to files here, numbered, one for each"
        ),
    ] = None
    mlir_timing: Annotated[bool, _DUMPS.switch("--mlir-timing", "print the time that each pass took")] = False
    mlir_pass_statistics: Annotated[
        bool,
        _DUMPS.switch(
            "--mlir-pass-statistics",
            "print how many rewrites each of our passes did, and declined (jaxlib's MLIR is built without statistics)",
        ),
    ] = False
    mlir_disable_threading: Annotated[
        bool, _DUMPS.switch("--mlir-disable-threading", "accepted for scripts of mlir-opt: there are no threads")
    ] = False
    crash_reproducer: Annotated[
        str | None,
        _FAILURES.value(
            "--mlir-pass-pipeline-crash-reproducer",
            metavar="FILE",
            help="write the module and the pipeline here when a pass fails (default: a temporary file after a crash)",
        ),
    ] = None
    mlir_generate_reproducer: Annotated[
        str | None, _FAILURES.value("--mlir-generate-reproducer", metavar="FILE", help="write them here in any case")
    ] = None
    run_reproducer: Annotated[
        bool, _FAILURES.switch("--run-reproducer", "run the pipeline that the input file holds")
    ] = False
    debug: Annotated[bool, _FAILURES.switch("--debug", "show all of MLIR's diagnostics with notes, and tracebacks")] = (
        False
    )
    process_id: int = dataclasses.field(default_factory=os.getpid)  # of the parent, in names of partial files

    @property
    def lists(self) -> bool:
        """Whether something is listed, and no module read."""
        return bool(self.list_passes or self.show_dialects or self.version or self.completion)

    @property
    def name(self) -> str:
        """The input, in messages."""
        return self.input

    @property
    def partial_output(self) -> Path | None:
        return self._partial(self.output, "partial")

    @property
    def partial_audit(self) -> Path | None:
        return self._partial(self.audit_output, "audit.partial")

    @property
    def partial_certificate(self) -> Path | None:
        return self._partial(self.certificate, "certificate.partial")

    def _partial(self, path: Path | None, suffix: str) -> Path | None:
        """Where to write the file that will be moved to `path` when it is complete; known to the parent, after a crash,
        too."""
        if not path or is_special(path):
            return None
        return path.resolve().with_name(f".par-opt-{self.process_id}.{suffix}")


def is_special(path: Path) -> bool:
    """True for a device or a pipe, such as /dev/null, which must be written to and not replaced."""
    return path.exists() and not path.is_file()
