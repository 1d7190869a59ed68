"""FileCheck by PyPI's `filecheck` and, given `--llvm PATH`, by LLVM's FileCheck too: both must pass.

The tests run through this, so that a check line which only one of the two understands is found.
"""

import subprocess
import sys


def main() -> int:
    arguments = sys.argv[1:]
    commands = [[sys.executable, "-m", "filecheck", "--enable-var-scope", "--reject-empty-vars"]]
    if arguments[:1] == ["--llvm"]:
        commands.append([arguments[1], "--enable-var-scope"])
        arguments = arguments[2:]
    text = sys.stdin.buffer.read()
    statuses = [subprocess.run([*command, *arguments], input=text, check=False).returncode for command in commands]
    return int(any(statuses))


if __name__ == "__main__":
    sys.exit(main())
