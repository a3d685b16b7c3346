"""Import the files of ``tools/setup_env``, which is no package."""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load(name: str):
    folder = ROOT / 'tools' / 'setup_env'
    spec = importlib.util.spec_from_file_location(
        f'setup_env_{name.strip("_")}', folder / f'{name}.py'
    )
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))  # as when the folder is run
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module
