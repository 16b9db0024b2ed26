"""Registries: every algorithm, dataset, partitioner, model, metric, attack, aggregator, compressor and analysis is one
file that registers itself.

A folder is scanned when its registry is first used. Folders named in ``FEDSCAPE_PLUGINS`` (separated like
``PATH``) are scanned at each use: ``<folder>/algorithms/my_method.py`` and so on, or loose files in the folder itself.
All registries raise PluginBroken if one of these folders is missing, or one of their files cannot be imported.
"""

import hashlib
import importlib
import importlib.util
import logging
import os
import pkgutil
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib.machinery import SourceFileLoader
from multiprocessing import parent_process
from pathlib import Path
from types import CodeType, NoneType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from engine.core.errors import PluginBroken, UnknownName, suggestion
from engine.core.paths import PLUGINS, plugin_folders
from engine.core.spaces import Space
from engine.core.style import Style

T = TypeVar("T")
log = logging.getLogger(__name__)
_registries: list["Registry"] = []
_scanning = threading.RLock()  # one for all: a plugin file may register in several, and other threads wait for its end


class Options(BaseModel):
    """Base of all option classes: frozen, unknown keys are errors. ``Field`` has symbol, default and description.

    ``advanced`` names rarely changed options, which a form shows on request. ``lr_space`` is the search space of
    ``training.lr`` for a method that needs another one. ``exclusive`` has pairs of which only one may be set.
    """

    advanced: ClassVar[tuple[str, ...]] = ()
    exclusive: ClassVar[tuple[tuple[str, str], ...]] = ()
    lr_space: ClassVar[tuple[float, float, str] | None] = None

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    @classmethod
    def is_replaced(cls, key: str, given: Collection[str]) -> bool:
        """Whether an option of the experiment gives way to those that an entry sets, as they are mutually exclusive."""
        return any({key, other} == set(pair) for pair in cls.exclusive for other in given if other != key)

    @property
    def untuned(self) -> frozenset[str]:
        """The options that have no effect, or may not be set, because of others that are set."""
        return frozenset()

    def from_draw(self, draw: dict[str, Any]) -> dict[str, Any]:
        """The settings of a point drawn from the search spaces; ``self`` has the options that are not drawn."""
        return draw

    @field_validator("*", mode="before")
    @classmethod
    def _no_boolean_as_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        """Pydantic would read true as 1."""
        if any(isinstance(one, bool) for one in (value if isinstance(value, list | tuple) else [value])):
            kinds = _kinds(cls.model_fields[str(info.field_name)].annotation)[0]
            if "bool" not in kinds and {"int", "float", "list"}.intersection(kinds):
                raise ValueError("should be a number, not true or false")
        return value


Positive = Annotated[float, Field(gt=0, le=1e6)]
NonNegative = Annotated[float, Field(ge=0, le=1e6)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""Applies a constraint to the numbers of an option that also takes strings: ``Positive | Literal["auto"]``."""


class NoOptions(Options):
    """The options of entries that have none."""


@dataclass(frozen=True)
class Parameter:
    """One option, as shown in forms, the handbook and ``list --json``."""

    name: str
    type: str
    default: Any
    minimum: float | None
    maximum: float | None
    choices: tuple[Any, ...] | None
    description: str
    symbol: str
    required: bool
    excludes: tuple[str, ...] = ()  # "minimum", "maximum": exclusive bounds
    tune: Space | None = None
    unset: str = ""  # what applies while an optional parameter has no value, in a few words

    @property
    def meaning(self) -> str:
        """The description, with the search space."""
        return f"{self.description} Search space: {self.tune.in_words}." if self.tune else self.description


@dataclass(frozen=True)
class Entry:
    """A registered class: its name, title, source and options."""

    name: str
    title: str
    paper: str
    make: Callable[..., Any]
    options: type[Options]
    family: str = "Other"  # the group in which it is listed
    style: Style | None = None  # of a method in figures; None derives one from the name
    short: str = ""  # the title in headings and tables
    privacy: tuple[str, ...] = ()  # of a method: the units of the section ``privacy`` whose guarantee holds
    averages: bool = True  # of a method: whether the server averages models, which other rules may replace
    two_uploads: bool = False  # of a method: whether clients send two things, each with a mean of its own
    at_evaluation: tuple[str, ...] | None = None  # options that make models outside of rounds; None: not declared
    until_settled: bool = False  # of a method: whether a client's computing time depends on its data

    @cached_property
    def parameters(self) -> tuple[Parameter, ...]:
        return tuple(_parameter(n, f) for n, f in self.options.model_fields.items())

    def describe(self) -> dict[str, Any]:
        """The entry of ``list --json``."""
        keys = ("name", "type", "default", "minimum", "maximum", "choices", "description")
        rows = [{k: getattr(p, k) for k in keys} for p in self.parameters]
        for row in rows:
            row["choices"] = list(row["choices"]) if row["choices"] is not None else None
        for row, p in zip(rows, self.parameters, strict=True):
            row["tune"] = p.tune.to_list() if p.tune else None
        return {"name": self.name, "title": self.title, "paper": self.paper, "parameters": rows}


class Registry:
    """Maps names to entries of one kind, found by scanning a package and the user's plugin folders."""

    def __init__(self, kind: str, package: str, *methods: str) -> None:
        self.kind, self.package, self.methods = kind, package, methods
        self.folder = package.rpartition(".")[2]
        _registries.append(self)
        self._entries: dict[str, Entry] = {}
        self._is_scanned = False

    def register(
        self,
        name: str,
        *,
        title: str,
        paper: str,
        short: str = "",
        family: str = "Other",
        style: Style | None = None,
        privacy: tuple[str, ...] = (),
        averages: bool = True,
        two_uploads: bool = False,
        at_evaluation: tuple[str, ...] | None = None,
        until_settled: bool = False,
    ) -> Callable[[type[T]], type[T]]:
        """Class decorator. The class takes one argument, annotated ``hparams`` or ``options``, or none.

        Raises ValueError for a class that lacks a method, cannot take its options or names an option in
        ``at_evaluation`` that it does not have, and if another class has registered the name, so that no plugin
        replaces a method unnoticed. A file that is executed again registers its classes again.
        ``short`` is a shorter title, where the title is long. ``privacy``, of a method: "client" if a round makes one
        call of ``task.channel.aggregate`` with what depends on each client's own data, and the server reads nothing
        else of single clients; "sample" if data enters uploads only by gradients of ``task.backend``.
        ``at_evaluation`` are the options with which ``personalized`` makes models from raw data: () if it never does,
        None if that is not declared. ``until_settled``: a client's computing time depends on its data.
        """

        def add(made: type[T]) -> type[T]:
            if not paper:
                raise ValueError(f"{self.kind} {name!r} must name its paper or source")
            known = self._entries.get(name)
            if known is not None and _place(known.make) != _place(made):
                raise ValueError(f"{self.kind} {name!r} is already registered by {_place(known.make)}; rename it")
            hints = get_type_hints(made)
            options = hints.get("hparams") or hints.get("options") or NoOptions
            if not (isinstance(options, type) and issubclass(options, Options)):
                raise ValueError(f"{self.kind} {name!r}: {options} must be a subclass of engine.core.registry.Options")
            own = [base for base in made.__mro__ if base is not object and not vars(base).get("_is_protocol")]
            if lacking := [method for method in self.methods if not any(method in vars(base) for base in own)]:
                raise ValueError(f"{self.kind} {name!r}: {made.__name__} lacks {', '.join(lacking)}")
            if options is not NoOptions and not any(_has_init(base) for base in own):
                advice = "add @dataclass(frozen=True) below the line that registers it"
                raise ValueError(f"{self.kind} {name!r}: {made.__name__}() does not take its options; {advice}")
            if unknown := [option for option in at_evaluation or () if option not in options.model_fields]:
                raise ValueError(f"{self.kind} {name!r}: at_evaluation names {', '.join(unknown)}, not an option")
            entry = Entry(
                name,
                title,
                paper,
                made,
                options,
                family,
                style,
                short or title,
                privacy,
                averages,
                two_uploads,
                at_evaluation,
                until_settled,
            )
            self._entries = {**self._entries, name: entry}  # another thread may be reading the old one
            return made

        return add

    def get(self, name: str) -> Entry:
        """The entry with this name. Raises UnknownName with the nearest name."""
        entries = self._scan()
        if name not in entries:
            raise UnknownName(self.kind, name, entries)
        return entries[name]

    def short_title(self, name: str) -> str:
        """The title of an entry in headings and tables; an unknown name is unchanged."""
        return self.get(name).short if name in self else name

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self._scan()))

    def __iter__(self) -> Iterator[Entry]:
        return iter([entry for _, entry in sorted(self._scan().items())])

    def __contains__(self, name: str) -> bool:
        return name in self._scan()

    def _scan(self) -> dict[str, Entry]:
        """All entries. The dict is replaced when they change, and never changed itself."""
        with _scanning:
            if not self._is_scanned:
                self._is_scanned = True  # set first, since a file may use its own registry
                try:
                    self._import_all()
                except BaseException:
                    self._is_scanned = False
                    raise
            self._load_plugins()
            return self._entries

    def _import_all(self) -> None:
        package = importlib.import_module(self.package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self.package}.{module.name}")

    def _load_plugins(self) -> None:
        for root in check_plugin_folders():
            for name, path in (*_plugins_in(str(root)), *_plugins_in(os.path.join(root, self.folder))):
                if name not in sys.modules:
                    _load_plugin(name, path)

    def forget(self, module: str) -> None:
        """Removes what a module has registered."""
        self._entries = {name: entry for name, entry in self._entries.items() if entry.make.__module__ != module}


def _place(made: Callable[..., Any]) -> str:
    """Where a class is defined: its module and its name there."""
    return f"{made.__module__}.{made.__qualname__}"


def _has_init(base: type) -> bool:
    """Whether the class itself has an ``__init__``; a subclass of a Protocol has a stand-in for one."""
    return getattr(vars(base).get("__init__"), "__name__", "") == "__init__"


def check_plugin_folders() -> list[Path]:
    """The plugin folders. Raises PluginBroken if one is missing."""
    folders = plugin_folders()
    for root in folders:
        if not os.path.isdir(root):
            advice = f"give existing folders, separated by {os.pathsep!r}, or unset it"
            raise PluginBroken(f"{PLUGINS}: {root} is not a folder; {advice}")
        _warn_once(root)
    return folders


@lru_cache
def _warn_once(root: Path) -> None:
    """Of a folder without plugins, or one whose name is misspelled. Once, not again in workers of this process."""
    if parent_process() is not None:
        return
    folders = [registry.folder for registry in _registries]
    if not any(root.glob("*.py")) and not any((root / folder).is_dir() for folder in folders):
        log.warning("%s: %s has no .py files and none of the folders %s", PLUGINS, root, ", ".join(folders))
    for folder in sorted({path.parent for path in root.glob("[!.]*/*.py")}):
        if folder.name not in folders and (meant := suggestion(folder.name, folders, 0.85)):
            log.warning("%s: the plugins in %s are not loaded%s", PLUGINS, folder, meant)


def _plugins_in(folder: str) -> tuple[tuple[str, Path], ...]:
    """The modules and paths of the .py files in ``folder``, which may not exist."""
    try:
        files, changed_ns = tuple(os.listdir(folder)), os.stat(folder).st_mtime_ns
    except OSError:
        return ()
    return _modules_and_paths(folder, files, changed_ns)


@lru_cache
def _modules_and_paths(folder: str, files: tuple[str, ...], changed_ns: int) -> tuple[tuple[str, Path], ...]:
    """Cached, because resolving paths is slow. ``changed_ns``: a link that is replaced changes the folder's time."""
    paths = [Path(folder, file) for file in sorted(files) if file.endswith(".py")]
    return tuple((_plugin_name(path), path) for path in paths)


def _plugin_name(path: Path) -> str:
    return f"fedscape_plugin_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:8]}"


class _PluginLoader(SourceFileLoader):
    """Always compiles: stored bytecode would be used after an edit in the same second that keeps the file's size."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_plugin(name: str, path: Path) -> None:
    spec = importlib.util.spec_from_file_location(name, path, loader=_PluginLoader(name, str(path)))
    assert spec is not None and spec.loader is not None  # always the case for a .py path
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        sys.modules.pop(name, None)
        for registry in _registries:
            registry.forget(name)  # what it had registered before the error
        if not isinstance(error, Exception | SystemExit):
            raise
        why = f"{type(error).__name__}: {error}"
        raise PluginBroken(f"{path}: cannot be imported ({why}); fix it or remove it from {PLUGINS}") from error


def _parameter(name: str, field: Any) -> Parameter:
    kinds, choices, bounds = _kinds(field.annotation)
    bounds |= _bounds(field.metadata)
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
    return Parameter(
        name=name,
        type="|".join(kinds),
        default=list(default) if isinstance(default, tuple) else default,
        minimum=bounds.get("minimum"),
        maximum=bounds.get("maximum"),
        choices=choices or None,
        description=field.description or "",
        symbol=field.title or name,
        required=field.is_required(),
        excludes=tuple(side for side in ("minimum", "maximum") if f"beyond {side}" in bounds),
        tune=Space.of(extra["tune"]) if "tune" in extra else None,
        unset=extra.get("unset", ""),
    )


def _kinds(annotation: Any) -> tuple[tuple[str, ...], tuple[Any, ...], dict[str, float]]:
    """``Positive | Literal["auto"]`` -> (("float", "choice"), ("auto",), {"minimum": 0})."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extra = get_args(annotation)
        kinds, choices, bounds = _kinds(inner)
        return kinds, choices, bounds | _bounds([c for e in extra for c in getattr(e, "metadata", [e])])
    if origin is Literal:
        return ("choice",), get_args(annotation), {}
    if origin is Union or type(annotation).__name__ == "UnionType":
        parts = [_kinds(part) for part in get_args(annotation)]
        names = dict.fromkeys(kind for kinds, _, _ in parts for kind in kinds)
        merged = {side: value for _, _, bounds in parts for side, value in bounds.items()}
        return tuple(names), tuple(choice for _, choices, _ in parts for choice in choices), merged
    if annotation is NoneType:
        return ("null",), (), {}
    if origin in (tuple, list):
        return ("list",), (), {}
    return (getattr(annotation, "__name__", str(annotation)),), (), {}


def _bounds(constraints: Iterable[Any]) -> dict[str, float]:
    found = {}
    for constraint in constraints:
        for attribute, side in (("ge", "minimum"), ("gt", "minimum"), ("le", "maximum"), ("lt", "maximum")):
            value = getattr(constraint, attribute, None)
            if value is not None:
                found[side] = value
                if attribute in ("gt", "lt"):
                    found[f"beyond {side}"] = value
    return found


_METHODS = ("init", "round", "personalized", "global_model", "shared")
ALGORITHMS = Registry("algorithm", "engine.algorithms", *_METHODS)
DATASETS = Registry("dataset", "engine.datasets", "present", "load")
PARTITIONERS = Registry("partitioner", "engine.partitioners", "split")
MODELS = Registry("model", "engine.models", "build")
METRICS = Registry("metric", "engine.metrics", "__call__")
ANALYSES = Registry("analysis", "engine.analyses", "compute")
ATTACKS = Registry("attack", "engine.attacks")
AGGREGATORS = Registry("aggregator", "engine.aggregators", "combine")
COMPRESSORS = Registry("compressor", "engine.compressors", "compress")
