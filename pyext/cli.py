"""par-opt: run passes over StableHLO modules, with the conventions of mlir-opt.

This process only reads the command line and the input. All that needs MLIR runs in a forked child
(`paropt.command.driver`), so that an abort in native code ends in one line and exit status 1 instead of a lost process.
"""

import sys
from pathlib import Path

from paropt.command.option_parser import UnknownOptionError, UsageError, options_of
from paropt.command.options import Options, is_special
from paropt.process.crashes import Progress, run_apart, signal_name


def main(argv: list[str] | None = None) -> int:
    """Runs par-opt with the arguments `argv` (default: the process's own); returns the exit status, 0 or 1."""
    try:
        options = parse_arguments(sys.argv[1:] if argv is None else argv)
        data = b"" if options.lists else _read(options.input)
        _require_writable(options)
    except UnknownOptionError as error:
        return run_apart(error.explained)
    except UsageError as error:
        print(f"par-opt: error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    progress = Progress()

    def work() -> int:
        try:
            from paropt.command import driver  # here, in the child: loading MLIR takes time and may crash
        except ImportError as error:  # of an unknown jaxlib
            print(f"par-opt: error: {error}", file=sys.stderr)
            return 1
        return driver.run(options, data, progress)

    status = run_apart(work)
    for partial in filter(None, (options.partial_output, options.partial_audit, options.partial_certificate)):
        partial.unlink(missing_ok=True)
    return status if status >= 0 else _died(-status, options, data, progress)


def parse_arguments(argv: list[str]) -> Options:
    """The options; raises UsageError where they contradict each other. `--help` prints and exits."""
    options = options_of(argv)
    if options.passes is not None and options.run_reproducer:
        raise UsageError("--run-reproducer takes the pipeline from its file: leave --passes out")
    if options.mlir_generate_reproducer and options.split_input_file:
        raise UsageError("--mlir-generate-reproducer holds one module: leave --split-input-file out")
    if options.certificate and options.split_input_file:
        raise UsageError("--certificate is for one module: leave --split-input-file out")
    if options.check and options.split_input_file:
        raise UsageError("--check is for one module: leave --split-input-file out")
    _check_plan(options)
    _check_audit(options)
    _check_dumps(options)
    return options


def _check_plan(options: Options) -> None:
    if not options.plan:
        if options.memory is not None:
            raise UsageError("--memory says what a plan may take: give --plan, too")
        if options.objective is not None:
            raise UsageError("--objective says what a plan minimises: give --plan, too")
        if options.plan_cache is not None:
            raise UsageError("--plan-cache is for plans: give --plan, too")
        return
    others = {
        "--audit": options.audit,
        "--check": options.check,
        "--certificate": options.certificate,
        "--emit-bytecode": options.emit_bytecode,
        "--passes": options.passes is not None,
        "--run-reproducer": options.run_reproducer,
        "--split-input-file": options.split_input_file,
        "--verify-contract": options.verify_contract,
    }
    given = [name for name, value in others.items() if value]
    if given:
        raise UsageError(f"--plan chooses for a step as it is: leave {given[0]} out")
    if len(options.target) != 1:
        raise UsageError("--plan is for one cluster: give one --target, as in --target=gpu:h100:1x1x8")


def _check_dumps(options: Options) -> None:
    if not options.mlir_print_ir_tree_dir:
        return
    all_of_them = (
        options.mlir_print_ir_before_all,
        options.mlir_print_ir_after_all,
        options.mlir_print_ir_after_change,
        options.mlir_print_ir_after_failure,
    )
    if options.mlir_print_ir_before or options.mlir_print_ir_after:
        raise UsageError("--mlir-print-ir-tree-dir numbers the dumps of all passes: leave out the names of passes")
    if not any(all_of_them):
        raise UsageError("--mlir-print-ir-tree-dir says where to: give --mlir-print-ir-after-all, too, or the like")


def _check_audit(options: Options) -> None:
    given = {
        "--target": options.target,
        "--fail-if": options.fail_if,
        "--audit-baseline": options.audit_baseline,
        "--estimate": options.estimate is not None,
        "--audit-output": options.audit_output,
    }
    alone = [name for name, value in given.items() if value]
    if options.plan:
        alone = [name for name in alone if name not in ("--target", "--estimate")]
    if alone and not options.audit:
        raise UsageError(f"{alone[0]} says how to audit: give --audit, too")
    if options.audit and options.split_input_file:
        raise UsageError("--audit is for one module: leave --split-input-file out")
    if options.audit == "png" and not options.audit_output and sys.stdout.isatty():
        raise UsageError("--audit=png would write binary data to the terminal: name a file with --audit-output")


def _read(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise UsageError(f"cannot read '{name}': {_reason(error)}") from error


def _require_writable(options: Options) -> None:
    """Raises UsageError for an output that could not be written, before any work is done."""
    reproducers = (options.crash_reproducer, options.mlir_generate_reproducer)
    written = (options.output, options.audit_output, options.certificate, *reproducers)
    _require_apart(options)
    for path in written:
        if path and Path(path).is_dir():
            raise UsageError(f"cannot write '{path}': it is a directory")
        if path and not Path(path).parent.is_dir():
            raise UsageError(f"cannot write '{path}': no directory '{Path(path).parent}'")
    if options.emit_bytecode and not options.output and not options.lists and sys.stdout.isatty():
        raise UsageError("--emit-bytecode would write binary data to the terminal: name a file with -o")


def _require_apart(options: Options) -> None:
    """Raises UsageError where two outputs would go to one file."""
    outputs = {
        "-o": options.output,
        "--audit-output": options.audit_output,
        "--certificate": options.certificate,
        "--mlir-generate-reproducer": options.mlir_generate_reproducer,
        "--mlir-pass-pipeline-crash-reproducer": options.crash_reproducer,
    }
    taken: dict[Path, str] = {}
    for name, path in ((name, Path(path).resolve()) for name, path in outputs.items() if path):
        if path in taken and not is_special(path):
            raise UsageError(f"{taken[path]} and {name} both write '{outputs[name]}'")
        taken[path] = name


def _reason(error: Exception) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def _died(number: int, options: Options, data: bytes, progress: Progress) -> int:
    """Says which activity a signal ended, and writes a reproducer if that was a pass; returns the exit status."""
    name = signal_name(number)
    if name in ("SIGINT", "SIGPIPE", "SIGTERM", "SIGHUP"):
        return 128 + number  # somebody wanted it to end: as a shell would report it
    cause = "was killed" if name == "SIGKILL" else "crashed"
    activity, chunk = progress.activity, progress.chunk
    print(f"par-opt: error: {options.name}: MLIR {cause} ({name}) while {activity}", file=sys.stderr)
    if not activity.startswith("running"):
        return 1

    def reproduce() -> int:
        from paropt.command import driver

        return driver.write_crash_reproducer(options, data, chunk)

    run_apart(reproduce)
    return 1
