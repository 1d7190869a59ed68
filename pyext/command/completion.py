"""Scripts that complete the command line of par-opt, for bash and zsh: `par-opt --completion=bash`."""

import argparse

from paropt.command.option_parser import declared
from paropt.passes.support.registry import PASSES, PIPELINES

_SCRIPT = """\
_par_opt() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
    if [[ $word == '=' ]]; then
        word=
    elif [[ $before == '=' ]]; then
        before=${{COMP_WORDS[COMP_CWORD-2]}}
    fi
    local done=
    case $before in
{values}
        *) if [[ $word == -* ]]; then
               COMPREPLY=($(compgen -W '{options}' -- "$word"))
           else
               COMPREPLY=($(compgen -f -- "$word"))
           fi ;;
    esac
}}
complete -o nosort -o filenames -F _par_opt par-opt"""

_PIPELINE = """\
        {names}) [[ $word == *,* ]] && done=${{word%,*}},
            COMPREPLY=($(compgen -P "$done" -W '{words}' -- "${{word##*,}}")) ;;"""
_CHOICE = """\
        {names}) COMPREPLY=($(compgen -W '{words}' -- "$word")) ;;"""


def completion(shell: str) -> str:
    """The script for `shell`, to be sourced."""
    actions = declared()
    values = [_value(action) for action in actions if action.choices or action.dest == "passes"]
    options = " ".join(spelling for action in actions for spelling in action.option_strings)
    script = _SCRIPT.format(values="\n".join(values), options=options)
    return f"autoload -U +X bashcompinit && bashcompinit\n{script}" if shell == "zsh" else script


def _value(action: argparse.Action) -> str:
    """The line of an option whose values are known."""
    names = "|".join(action.option_strings)
    if action.choices:
        return _CHOICE.format(names=names, words=" ".join(action.choices))
    return _PIPELINE.format(names=names, words=" ".join([*PIPELINES, *PASSES]))
