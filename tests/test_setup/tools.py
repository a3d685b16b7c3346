"""Import the files of ``tools/setup_env``, which is no package."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def load(name: str):
    path = ROOT / 'tools' / 'setup_env' / f'{name}.py'
    spec = importlib.util.spec_from_file_location(f'setup_env_{name.strip("_")}', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
