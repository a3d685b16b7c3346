"""Let configs inherit from ``mmbam::...``, and from forks of OpenMMLab's projects.

mmengine keeps a table from the name in front of ``::`` to a distribution, and looks for
``.mim/configs`` in the folder of that. The table does not know mmbam. It also asks for
mmsegmentation where the fork ``onedl-mmsegmentation`` is installed; for the other
projects the name of the module works for both.
"""

from __future__ import annotations

import sys
from importlib import metadata, util
from importlib.machinery import ModuleSpec
from typing import Any

READER = 'mmengine.config.config'


def know_names() -> None:
    """Complete mmengine's reader of configs, now or as soon as it is imported."""
    if READER in sys.modules:
        complete(sys.modules[READER])
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def complete(reader: Any) -> None:
    """Teach mmengine's reader of configs, a module, the names that it lacks."""
    names = sys.modules['mmengine.config.utils'].MODULE2PACKAGE
    # No distribution has this name, so mmengine asks Python where the module is. By the
    # name of the package it would miss one that is installed from a clone.
    names['mmbam'] = 'mmbam.version'
    find = reader.Config._get_cfg_path

    def find_ours(cfg_path: str, filename: str) -> tuple[str, str | None]:
        path, scope = find(cfg_path, filename)
        # mmengine would look for all types of an inherited config in the scope mmbam.
        # Ours name them in the scope of the project that they are for.
        return path, None if scope == 'mmbam' else scope

    reader.Config._get_cfg_path = staticmethod(find_ours)
    try:
        metadata.version('onedl-mmsegmentation')
    except metadata.PackageNotFoundError:
        return
    names['mmseg'] = 'mmseg'


class _Finder:
    """Completes the reader when it is imported; importing it here takes seconds."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != READER:
            return None
        sys.meta_path.remove(self)
        spec: ModuleSpec | None = util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def load_and_complete(module: Any) -> None:
            load(module)
            complete(module)

        spec.loader.exec_module = load_and_complete  # type: ignore[method-assign]
        return spec
