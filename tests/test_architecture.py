"""Rules of the code base that a change may not break unnoticed. Each test looks at all files and names all breaches."""

import ast
import importlib
import inspect
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import equinox as eqx

import sivi
import write_public_api

SOURCE = Path(sivi.__file__).parent

#: The tiers of docs/architecture.md. A room imports only from itself and from tiers above its own.
TIERS = """
    _compiler _interrupts
    _types _errors _version _tables _imports _programs _jaxprs _threefry _smooth _pareto _scale
    _arguments _renamed _progress _traced
    _fields
    _backend _random _host_random constraints schedules
    _repeats _layout _triangular coordinates _batches _networks kernels optimizers stopping
    targets families
    _draws _densities _at_draws _evidence
    samplers warmup
    _precisions
    critics
    objectives
    defaults metrics
    _run _in_words
    posterior
    _storage
    _fitting
    plots interop datasets
    verdict
    experiments
    cli
"""
#: Methods of the posterior are thin, and import inside them the later room that does the work; so does a network's.
LATER_ROOMS = {"posterior": {"_storage", "interop", "verdict"}, "targets": {"_precisions"}}

LONGEST_FILE = 333


def modules():
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def run_time_nodes(path: Path):
    """The nodes of a module that run: not those for the type checker alone."""
    guarded = {
        id(child)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    return [node for node in ast.walk(tree_of(path)) if id(node) not in guarded]


def imported_names(path: Path, nodes) -> set[tuple[str, ...]]:
    """What the import statements among the nodes import, as paths inside the package."""
    package = path.relative_to(SOURCE).parts[:-1]
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "sivi"):
            parts = tuple(node.module.split(".")) if node.module else ()
            parts = (*package[: len(package) - (node.level - 1)], *parts) if node.level else parts[1:]
            found |= {(*parts, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {tuple(alias.name.split(".")[1:]) for alias in node.names if alias.name.startswith("sivi.")}
    return found


def rooms_imported(path: Path) -> set[str]:
    """The rooms that a module imports at run time, anywhere in it."""
    return {name[0] for name in imported_names(path, run_time_nodes(path))}


def modules_imported(path: Path) -> set[Path]:
    """The files that a module imports when it is itself imported."""
    inner = {
        id(child)
        for node in ast.walk(tree_of(path))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        for child in ast.walk(node)
    }
    found = set()
    for name in imported_names(path, [node for node in run_time_nodes(path) if id(node) not in inner]):
        for parts in (name, name[:-1]):  # a module, or a name in one
            files = SOURCE.joinpath(*parts).with_suffix(".py"), SOURCE.joinpath(*parts, "__init__.py")
            if there := [file for file in files if file.exists()]:
                found.add(there[0])
                break
    return found


def breaches() -> list[str]:
    tiers = [line.split() for line in TIERS.strip().splitlines()]
    tier = {room: i for i, rooms in enumerate(tiers) for room in rooms}
    found = []
    for path in modules():
        room, name = room_of(path), path.relative_to(SOURCE)
        if room == "__init__":
            continue
        if room not in tier:
            found.append(f"{name}: {room} has no tier")
            continue
        allowed = {other for other, i in tier.items() if i < tier[room]} | {room} | LATER_ROOMS.get(room, set())
        allowed |= {"__version__"} if room == "cli" else set()
        found += [f"{name} imports {other}" for other in sorted(rooms_imported(path) - allowed)]
    return found


def test_rooms_import_only_from_tiers_above():
    found = breaches()
    assert not found, "\n".join(found)


def test_the_imports_of_a_module_are_seen():
    assert rooms_imported(SOURCE / "defaults.py") >= {"families", "objectives", "targets", "warmup"}
    assert rooms_imported(SOURCE / "targets" / "banana.py") == {"_arguments", "_fields", "_types", "targets"}
    assert SOURCE / "targets" / "base.py" in modules_imported(SOURCE / "targets" / "banana.py")
    assert SOURCE / "families" / "__init__.py" in modules_imported(SOURCE / "defaults.py")


def test_the_posterior_knows_neither_the_loop_nor_the_objectives():
    assert rooms_imported(SOURCE / "posterior.py") & {"objectives", "critics", "defaults", "_fitting"} == set()


def test_no_import_cycle():
    """Modules that import nothing that is left are taken away; what stays lies on a cycle or leads to one."""
    left = {path: modules_imported(path) - {path} for path in modules()}
    while free := [path for path, imports in left.items() if not imports & left.keys()]:
        for path in free:
            del left[path]
    assert not left, "\n".join(sorted(str(path.relative_to(SOURCE)) for path in left))


def test_no_module_is_shadowed_by_a_name_its_package_imports():
    """`package.name` is then the module, as the path of its file says, and not a function or class of that name."""
    shadowed = []
    for init in SOURCE.rglob("__init__.py"):
        inside = {path.stem for path in init.parent.glob("*.py")} | {
            path.parent.name for path in init.parent.glob("*/__init__.py")
        }
        for node in tree_of(init).body:
            names = set()
            if isinstance(node, ast.ImportFrom) and node.module:
                names = {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                names = {node.name}
            shadowed += [str((init.parent / name).relative_to(SOURCE.parent)) for name in names & inside]
    assert not shadowed, "\n".join(sorted(shadowed))


def classes_of_the_library():
    for path in modules():
        if path.stem == "__main__":
            continue
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        module = importlib.import_module(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
        yield from (value for value in vars(module).values() if inspect.isclass(value))


def test_a_class_is_abstract_or_final():
    """No module with methods to call has a subclass, and none calls `super()`; a hook may have a harmless default."""
    library = {cls for cls in classes_of_the_library() if cls.__module__.partition(".")[0] == "sivi"}
    bases = {base for cls in library for base in cls.__mro__[1:] if base in library and issubclass(base, eqx.Module)}
    hooks = {"ExactTarget"}  # says that there are exact draws, and nothing else
    concrete = {base.__name__ for base in bases if not inspect.isabstract(base)} - hooks
    abstract_fields = {base.__name__ for base in bases if getattr(base, "__abstractvars__", ())}
    assert concrete - abstract_fields == set()
    callers = {
        str(path.relative_to(SOURCE))
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "super"
    }
    assert callers == {"_errors.py"}  # an exception is no module


def test_no_file_is_long():
    lengths = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in modules()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_public_api_is_that_of_the_snapshot():
    current, snapshot = write_public_api.text().splitlines(), write_public_api.SNAPSHOT.read_text().splitlines()
    new = [line for line in current if line not in snapshot]
    gone = [line for line in snapshot if line not in current]
    assert (new, gone) == ([], []), "if this is meant, say so in CHANGELOG.md and run `make api`"
    assert current == snapshot


def test_every_public_name_exists_and_has_a_docstring():
    for room in write_public_api.rooms():
        module = importlib.import_module(room)
        assert module.__doc__, room
        for name in module.__all__:
            assert getattr(module, name).__doc__, f"{room}.{name}"


def test_class_names_are_unique_since_files_refer_to_them():
    names = Counter(
        node.name for path in modules() for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_library_code_never_prints_configures_or_unpickles():
    found = []
    for path in modules():
        calls = {ast.unparse(node.func) for node in ast.walk(tree_of(path)) if isinstance(node, ast.Call)}
        forbidden = {"jax.config.update", "pickle.load", "pickle.loads", "eval", "exec"}
        forbidden |= set() if room_of(path) == "cli" else {"print"}
        forbidden -= {"jax.config.update"} if path == SOURCE / "cli" / "_cache.py" else set()  # an application's
        found += [f"{path.relative_to(SOURCE)}: {call}" for call in sorted(calls & forbidden)]
        found += [f"{path.relative_to(SOURCE)}: allow_pickle"] if "allow_pickle=True" in path.read_text() else []
    assert not found, "\n".join(found)


def test_import_is_silent_and_leaves_jax_alone():
    code = (
        "import jax; before = dict(jax.config.values); import sivi, sivi.cli; "
        "assert dict(jax.config.values) == before; "
        "import sys; assert 'matplotlib' not in sys.modules"
    )
    run = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
