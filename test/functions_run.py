"""Which functions of par-opt run: each marks a byte when it is entered.

Their modules are compiled with one statement more at the start of each function and method: a tracer is asked at each
call of other libraries, too. Functions within functions are part of these.
"""

import ast
import hashlib
import json
import marshal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence, Set
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from mmap import mmap
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import store

MARKS = "__entered__"
CAPACITY = 1 << 15
_KEPT_VALUES = {"cache", "cached_property"}  # what these decorate is not entered by each test that reads its value

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """A file of Python in parts."""

    functions: tuple[str, ...]  # a hash for each: of its text, and of where the names are from that it reads
    rest: str  # a hash of what runs as it is loaded, and of the heads of methods and of decorated functions


_key = store.key  # test/seen.py puts another in its place, for tests
_hashes: list[str] = []  # of the functions of all modules that are loaded
_marks: bytearray | mmap = bytearray(CAPACITY)
_loaded: list[tuple[dict[str, Any], int, int]] = []  # the names of these modules, and which marks are theirs
_told: Callable[[int, Sequence[str]], object] | None = None  # of functions, in a process that keeps its marks
at_import: set[str] = set()  # what modules have called while they were loaded
marked: dict[int, CodeType] = {}  # of modules that are loaded so, by identity: code of two files may be equal
_loading = threading.Lock()
_forgetting: list[Callable[[], object]] = []  # empties the caches of these modules


def start() -> None:
    """From now on the modules of par-opt are loaded so that their functions leave marks."""
    assert "paropt" not in sys.modules, "par-opt is loaded already"
    sys.meta_path.insert(0, _Finder())


def keep_marks_in(memory: mmap, tell: Callable[[int, Sequence[str]], object]) -> None:
    """From now on functions leave their marks at the start of `memory`, and none is taken away; those that have left
    marks are marked there, too.

    `tell` gets hashes of functions and the place of the first one's mark: of those that are loaded now, and then of more.
    """
    global _loading, _marks, _told
    memory[:CAPACITY] = bytes(_marks[:CAPACITY])
    _loading, _marks, _told = threading.Lock(), memory, tell
    for names, first, end in _loaded:
        names[MARKS] = memoryview(memory)[first:end]
    tell(0, _hashes)


def forget() -> None:
    _marks[:] = bytes(CAPACITY)


def forget_values() -> None:
    """Empties the caches of values: a function that is not entered leaves no mark."""
    for empty in _forgetting:
        empty()


def entered() -> set[str]:
    """The hashes of the functions that have been entered since `forget`."""
    found, at = set(), _marks.find(b"\1")
    while at >= 0:
        found.add(_hashes[at])
        at = _marks.find(b"\1", at + 1)
    return found


class _Finder(MetaPathFinder):
    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "paropt":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    """`get_code` is as it was: `python -m` has it run as another module, which has no marks."""

    def _code(self) -> CodeType:
        data = self.get_data(self.path)
        key = _key("marking", self.path, data, sys.flags.optimize, sources=(Path(__file__),))
        found = store.get(key)
        made: CodeType = marshal.loads(found) if found is not None else self._marked(data)
        if found is None:
            store.put(key, marshal.dumps(made))
        marked[id(made)] = made
        return made

    def _marked(self, data: bytes) -> CodeType:
        return compile(_marking(ast.parse(data)), self.path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        functions = source_of(Path(self.path)).functions
        with _loading:
            first = len(_hashes)
            _hashes.extend(functions)
            assert len(_hashes) <= CAPACITY
            _loaded.append((vars(module), first, len(_hashes)))
            vars(module)[MARKS] = memoryview(_marks)[first : len(_hashes)]
            if _told is not None:
                _told(first, functions)
        if _told is not None:
            return exec(self._code(), vars(module))
        before = bytes(_marks)
        forget()
        try:
            exec(self._code(), vars(module))
            _forgetting.extend(filter(None, map(_emptying, vars(module).values())))
        finally:
            at_import.update(entered())
            _marks[:] = before


def _emptying(value: object) -> Callable[[], object] | None:
    """What empties a cache. One without a bound keeps what may not be made twice: see unchanged.py."""
    if is_kept_for_ever(value) or not callable(value):
        return None
    if type(value).__name__ == "Remembered":  # paropt.passes.support.memoize
        return partial(setattr, value, "_context", None)
    empty: Callable[[], object] | None = getattr(value, "cache_clear", None)
    return empty


def is_kept_for_ever(value: object) -> bool:
    """Is it a function under `functools.cache`?"""
    parameters = getattr(value, "cache_parameters", None)
    return callable(parameters) and parameters()["maxsize"] is None


def _marking(tree: ast.Module) -> ast.Module:
    for number, (_, function) in enumerate(_functions(tree.body)):
        position = 1 if ast.get_docstring(function, clean=False) is not None else 0
        (mark,) = ast.parse(f"{MARKS}[{number}] = 1").body
        for node in ast.walk(mark):
            ast.copy_location(node, function.body[min(position, len(function.body) - 1)])
        function.body.insert(position, mark)
    return tree


def _functions(body: list[ast.stmt], within: str = "") -> Iterator[tuple[str, _Function]]:
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield within + node.name, node
            case ast.ClassDef():
                yield from _functions(node.body, f"{within}{node.name}.")


def source_of(path: Path) -> Source:
    """The parts of a file of Python."""
    name = str(path.relative_to(store.ROOT))
    data = SourceFileLoader(path.stem, str(path)).get_data(str(path))
    key = _key("parts", name, data, sources=(Path(__file__),))
    if (found := store.get(key)) is None:
        found = json.dumps(_parts(data, name)).encode()
        store.put(key, found)
    functions, rest = json.loads(found)
    return Source(tuple(functions), rest)


def _parts(data: bytes, name: str) -> Source:
    tree = ast.parse(data)
    imports = {
        alias.asname or alias.name.partition(".")[0]: f"{getattr(node, 'module', '')} {alias.name}"
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }

    def origins(read: Set[str]) -> list[str]:
        return sorted(f"{each} {imports[each]}" for each in imports.keys() & read)

    functions = [_hash(name, place, ast.dump(each), *origins(_read_in(each))) for place, each in _functions(tree.body)]
    passed_on = imports.keys() - _read_in(tree)  # to other modules; or what is imported registers something
    rest = ast.Module(list(_rest(tree.body)), [])
    return Source(tuple(functions), _hash(name, ast.dump(rest), *origins(_read_in(rest) | passed_on)))


def _read_in(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _rest(body: list[ast.stmt], is_class: bool = False) -> Iterator[ast.stmt]:
    """Without imports (who reads a name has its origin), and without functions that nothing decorates: what is new is
    called by what has changed. Of decorated ones and methods, the head.
    """
    for node in body:
        match node:
            case ast.Import() | ast.ImportFrom():
                continue
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if is_class or node.decorator_list:
                    yield node if _keeps_values(node) else _head(node)
            case ast.ClassDef():
                node.body = list(_rest(node.body, is_class=True))
                yield node
            case _:
                yield node


def _keeps_values(function: _Function) -> bool:
    return not _KEPT_VALUES.isdisjoint(ast.unparse(each).rpartition(".")[2] for each in function.decorator_list)


def _head(function: _Function) -> _Function:
    documented = ast.get_docstring(function, clean=False) is not None and bool(function.decorator_list)
    function.body = function.body[:1] if documented else []
    return function


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
