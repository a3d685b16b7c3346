"""Read configs and build from them, with one sentence for what is wrong in them."""

from __future__ import annotations

import difflib
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from traceback import walk_tb
from typing import Any

from mmengine.config import Config
from mmengine.registry import build_functions, root
from mmengine.utils import manager

from .errors import InputError

SUFFIXES = ('.py', '.json', '.yaml', '.yml')
# Where mmengine calls a class with the arguments of a config.
_CALLERS = (build_functions.__file__, manager.__file__)


def read_config(path: str | Path, options: Mapping[str, Any] | None = None) -> Config:
    """Read a config file and put values of a command line into it.

    Args:
        path (str | Path): The config file, or ``mmbam::NAME`` for one of ours, as
            ``mmbam::bam/vit-b16_300e.py``. Other projects' configs have such names too.
        options (Mapping, optional): Values by dotted keys. Defaults to None.

    Raises:
        InputError: There is no such file, it is no config, it needs a package that is
            not installed, or an option has no place in it.
    """
    path = find_config(path)
    if path.suffix not in SUFFIXES:
        raise InputError(
            f'A config must end with {", ".join(SUFFIXES)}, but got {str(path)!r}.'
        )
    try:
        cfg = Config.fromfile(path)
    except Exception as error:  # a config is a program, which may raise anything
        raise InputError(
            f'The config {str(path)!r} cannot be read: {describe(error)}'
        ) from error
    for key, value in (options or {}).items():
        try:
            cfg.merge_from_dict({key: value})
        except Exception as error:  # mmengine has no class for this
            raise InputError(
                f'{key!r} cannot be set in {str(path)!r}: {describe(error)}'
            ) from error
    with build_errors():
        for _ in walk(cfg._cfg_dict):  # imports what configs of the newer style name
            pass
    return cfg


def walk(node: Any, path: str = '') -> Iterator[tuple[str, Any]]:
    """Yield the dotted key and the value of everything in a config, itself first."""
    yield path, node
    items: Any = ()
    if isinstance(node, dict):
        items = node.items()
    elif isinstance(node, (list, tuple)):
        items = enumerate(node)
    for key, value in items:
        yield from walk(value, f'{path}.{key}' if path else str(key))


def find_config(name: str | Path) -> Path:
    """Return the path of a config that is named by its path or as ``mmbam::NAME``."""
    package, colons, _ = str(name).partition('::')
    path = Path(name)
    if colons and re.fullmatch(r'\w+', package):
        try:
            path = Path(Config._get_cfg_path(str(name), '')[0])
        except (ValueError, AssertionError, ImportError, OSError) as error:
            raise InputError(f'Config {str(name)!r} not found: {error}') from error
    if not path.is_file():
        raise InputError(f'Config file not found: {path}')
    return path


@contextmanager
def build_errors(of: str = '') -> Iterator[None]:
    """Turn what is refused while a config is built into InputError.

    That is an unknown type, an unknown or missing argument, and what a class refuses by
    a ``raise`` or an ``assert``. Any other error inside of a class passes unchanged: it
    may be a bug. ``of`` is the subject to put in front of the message.
    """
    try:
        yield
    except (KeyError, TypeError, AssertionError, ImportError) as error:
        if not (isinstance(error, ImportError) or _is_refusal(error)):
            raise
        message = describe(error)
        name = message.split(' is not in the ')[0]
        if name != message:
            message = f'There is no {name!r} in the registry{close(name, all_types())}.'
        raise InputError(f'{of}: {message}' if of else message) from error


def close(name: str, names: Iterable[str]) -> str:
    """Return '; did you mean ...?' for the names that resemble one, else nothing."""
    bare = {known: known for known in names}
    for known in list(bare):
        bare.setdefault(known.rpartition('.')[2], known)
    # The scope, as in mmbam.BAM, says little about what was meant.
    found = difflib.get_close_matches(name.rpartition('.')[2], bare, n=3, cutoff=0.7)
    meant = list(dict.fromkeys(bare[one] for one in found))
    return f', but there is {" or ".join(meant)}' if meant else ''


def all_types() -> set[str]:
    """Return the names of all classes in the registries, with their scopes."""
    names: set[str] = set()
    for registry in registries():
        names |= set(registry.module_dict)
        for scope, child in registry.children.items():
            names |= {f'{scope}.{name}' for name in child.module_dict}
    return names


def registries() -> list:
    """Return mmengine's registries."""
    kind = type(root.MODELS)
    return [one for one in vars(root).values() if isinstance(one, kind)]


def describe(error: Exception) -> str:
    """Return the type and the message of an error in one line."""
    message = error.args[0] if isinstance(error, KeyError) and error.args else error
    line = ' '.join(str(message).split())
    return line if isinstance(error, InputError) else f'{line} ({type(error).__name__})'


def _is_refusal(error: Exception) -> bool:
    """Whether a call with the arguments of a config was refused, and nothing broke."""
    frames = list(walk_tb(error.__traceback__))
    built = [frame for frame, _ in frames if frame.f_code.co_filename in _CALLERS]
    if not built:
        return False
    last, line = frames[-1]
    if last is built[-1]:  # before any code of the class ran
        return True
    # A class may hand its keyword arguments on.
    unexpected = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    if unexpected:
        return unexpected[1] in built[-1].f_locals.get('args', ())
    text = linecache.getline(last.f_code.co_filename, line).strip()
    return text.startswith(('raise ', 'assert '))
