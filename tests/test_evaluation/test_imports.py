"""What importing the package does not load."""

import ast
from pathlib import Path

import pytest

import mmbam

PACKAGE = Path(mmbam.__file__).parent
# Other libraries may load both (mmdet does), so that sys.modules tells nothing.
LATE = {'sklearn', 'scipy', 'skimage'}


# Hooks import from those below the engine, too.
ROOMS = ['utils', 'datasets', 'checkpoints', 'models', 'evaluation', 'visualization',
         'engine', 'demo']  # fmt: skip


@pytest.mark.parametrize('room', ROOMS)
def test_large_libraries_are_only_imported_inside_functions(room):
    files = list((PACKAGE / room).rglob('*.py'))
    assert files
    for file in files:
        for node in ast.parse(file.read_text(encoding='utf-8')).body:
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            assert not LATE & {name.split('.')[0] for name in names}, file
