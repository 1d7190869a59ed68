"""Which functions of par-opt run: each marks a byte when it is entered.

Their modules are compiled with one statement more at the start of each function and method, which costs some 30 ns (a
tracer takes 40 % of a test). Functions within functions are part of these.
"""

import ast
import hashlib
import json
import marshal
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import store

MARKS = "__entered__"
CAPACITY = 1 << 15
_KEPT_VALUES = ("cache", "cached_property")  # what these decorate is not entered by each test that reads its value

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class Source(NamedTuple):
    """A file of Python in parts."""

    functions: tuple[str, ...]  # a hash for each: of its text, and of where the names are from that it reads
    rest: str  # a hash of everything outside of the bodies of functions that runs or can be asked for


_key = store.key  # test/unchanged.py puts another in its place, for tests
_hashes: list[str] = []  # of the functions of all modules that are loaded
_marks = bytearray(CAPACITY)
at_import: set[str] = set()  # what modules have called while they were loaded
_caches: list[Any] = []  # `lru_cache`s of these modules


def start() -> None:
    """From now on the modules of par-opt are loaded so that their functions leave marks."""
    assert "paropt" not in sys.modules, "par-opt is loaded already"
    sys.meta_path.insert(0, _Finder())


def forget() -> None:
    _marks[:] = bytes(CAPACITY)


def forget_values() -> None:
    """Empties the caches of values: a function that is not entered leaves no mark."""
    for each in _caches:
        each.cache_clear()


def entered() -> set[str]:
    """The hashes of the functions that have been entered since `forget`."""
    found, at = set(), _marks.find(1)
    while at >= 0:
        found.add(_hashes[at])
        at = _marks.find(1, at + 1)
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
    def get_code(self, fullname: str) -> CodeType:
        data = self.get_data(self.path)
        key = _key("marking", self.path, data, sources=(Path(__file__),))
        if (found := store.get(key)) is not None:
            code: CodeType = marshal.loads(found)
            return code
        made: CodeType = compile(_marking(ast.parse(data)), self.path, "exec", dont_inherit=True)
        store.put(key, marshal.dumps(made))
        return made

    def exec_module(self, module: ModuleType) -> None:
        first = len(_hashes)
        before = bytes(_marks)
        forget()
        try:
            _hashes.extend(source_of(Path(self.path)).functions)
            assert len(_hashes) <= CAPACITY
            vars(module)[MARKS] = memoryview(_marks)[first : len(_hashes)]
            super().exec_module(module)
            _caches.extend(filter(_is_bounded, vars(module).values()))
        finally:
            at_import.update(entered())
            _marks[:] = before


def _is_bounded(value: object) -> bool:
    """Those without a bound keep what may not be made twice; their functions count as a whole."""
    parameters = getattr(value, "cache_parameters", None)
    return callable(parameters) and parameters()["maxsize"] is not None


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
    functions = []
    for place, function in _functions(tree.body):
        read = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
        origins = sorted(f"{each} {imports[each]}" for each in read & imports.keys())
        functions.append(_hash(name, place, ast.dump(function), *origins))
    return Source(tuple(functions), _hash(name, ast.dump(ast.Module(list(_rest(tree.body)), []))))


def _rest(body: list[ast.stmt], is_class: bool = False) -> Iterator[ast.stmt]:
    """Without imports (a function's hash has those that it reads), and without functions that nothing decorates: what
    is new is called by what has changed. Of decorated ones and methods, the head.
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
    return any(name in ast.dump(each) for each in function.decorator_list for name in _KEPT_VALUES)


def _head(function: _Function) -> _Function:
    documented = ast.get_docstring(function, clean=False) is not None and bool(function.decorator_list)
    function.body = function.body[:1] if documented else []
    return function


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
