"""What the package promises about its imports."""

import ast
import os
import re
import shutil
import subprocess
import sys

import pytest

from mmbam.utils import versions
from tests.helpers.run import ROOT

# Modules whose distribution has another name.
DISTRIBUTIONS = {
    'PIL': 'pillow',
    'cv2': 'opencv-python',
    'skimage': 'scikit-image',
    'sklearn': 'scikit-learn',
}


def lint_imports(folder):
    """Check the contracts of ``pyproject.toml`` on the package in a folder."""
    code = 'import sys; from importlinter.cli import lint_imports as lint; '
    code += 'sys.exit(lint(no_cache=True, no_logo=True))'
    return subprocess.run(
        [sys.executable, '-c', code],
        cwd=folder,
        env={**os.environ, 'PYTHONPATH': str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_no_import_points_up_and_none_in_circles():
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def package(tmp_path):
    """A copy of the package, to break."""
    shutil.copy(ROOT / 'pyproject.toml', tmp_path)
    ignore = shutil.ignore_patterns('.mim', '__pycache__')
    return shutil.copytree(ROOT / 'mmbam', tmp_path / 'mmbam', ignore=ignore)


def test_imports_that_break_the_contract_are_found(package):
    imports = [
        ('models.bam', 'mmbam.evaluation.knn'),  # one layer up
        ('utils.errors', 'mmbam.cli'),  # all layers up
        ('datasets.boxes', 'mmbam.checkpoints'),  # two rooms of one layer
    ]
    for module, imported in imports:
        with (package / f'{module.replace(".", "/")}.py').open('a') as file:
            file.write(f'import {imported}\n')
    # A circle within a room.
    (package / 'models/one.py').write_text('import mmbam.models.two\n')
    (package / 'models/two.py').write_text('import mmbam.models.one\n')
    done = lint_imports(package.parent)
    assert done.returncode == 1, done.stderr
    for module, imported in imports:
        assert f'- mmbam.{module} -> {imported} (l.' in done.stdout
    assert 'No cycles are allowed in mmbam.models.' in done.stdout


def test_a_new_room_needs_a_place_in_the_contract(package):
    (package / 'attic.py').touch()
    done = lint_imports(package.parent)
    assert done.returncode == 1 and 'attic' in done.stdout


def test_every_imported_package_is_declared():
    """In setup.py, or among those whose versions ``import mmbam`` checks."""
    extras = [line for lines in in_setup('extras_require').values() for line in lines]
    lines = [*in_setup('install_requires'), *extras]
    # transformers is opened in an environment of its own, see docs/export.md.
    declared = {re.match(r'[\w.-]+', line)[0] for line in lines} | {'transformers'}
    checked = {package.module for package in (*versions.CORE, *versions.DENSE)}
    missing = {
        f'{module} ({path.relative_to(ROOT)})'
        for path in (ROOT / 'mmbam').rglob('*.py')
        for module in third_party_imports(path)
        if module not in checked and DISTRIBUTIONS.get(module, module) not in declared
    }
    assert not missing


def in_setup(argument):
    for node in ast.walk(ast.parse((ROOT / 'setup.py').read_text())):
        if isinstance(node, ast.keyword) and node.arg == argument:
            return ast.literal_eval(node.value)
    raise AssertionError(f'setup.py names no {argument}')


def third_party_imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module]
        else:
            continue
        for name in names:
            top = name.partition('.')[0]
            if top != 'mmbam' and top not in sys.stdlib_module_names:
                yield top
