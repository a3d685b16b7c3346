"""Say what is wrong with the environment this interpreter belongs to.

Run by the set-up with the environment's own Python, on the standard library and pip
alone, because any other package may be the one that is broken.
"""

from __future__ import annotations

import csv
import importlib
import json
import os
import sys
from collections import defaultdict
from importlib import metadata
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.utils import canonicalize_name

# The module that shows whether a distribution works.
IMPORTS = {
    'torchvision': 'torchvision',
    'timm': 'timm',
    'scikit-image': 'skimage',
    'mmpretrain': 'mmpretrain.models',
    'mmdet': 'mmdet.models',
    'mmsegmentation': 'mmseg.models',
    'onedl-mmpretrain': 'mmpretrain.models',
    'onedl-mmdetection': 'mmdet.models',
    'onedl-mmsegmentation': 'mmseg.models',
}
MMCV = ('mmcv', 'onedl-mmcv', 'mmcv-lite')
# Distributions that write into one folder: removing one breaks the other.
RIVALS = {
    'mmcv': ('mmcv-lite', 'onedl-mmcv'),
    'onedl-mmcv': ('mmcv', 'mmcv-lite'),
    'onedl-mmengine': ('mmengine', 'mmengine-lite'),
    'onedl-mmpretrain': ('mmpretrain',),
    'onedl-mmdetection': ('mmdet',),
    'onedl-mmsegmentation': ('mmsegmentation',),
    'opencv-python-headless': (
        'opencv-python',
        'opencv-contrib-python',
        'opencv-contrib-python-headless',
    ),
}
MISSING = 'is not installed'


def read_pins(files: list[str]) -> dict[str, str]:
    """Versions by normalised name of the lines that apply to this machine."""
    pins = {}
    for file in files:
        for line in Path(file).read_text('utf-8').splitlines():
            if line and not line.startswith('#'):
                pin = Requirement(line)
                if pin.marker is None or pin.marker.evaluate():
                    version = str(pin.specifier).replace('==', '')
                    pins[canonicalize_name(pin.name)] = version
    return pins


def installed() -> dict[str, metadata.Distribution]:
    """Distributions by normalised name; those without a name are left out."""
    found: dict[str, metadata.Distribution] = {}
    for dist in metadata.distributions():
        name = dist.metadata['Name'] if dist.metadata else None
        if name:
            found.setdefault(canonicalize_name(name), dist)
    return found


def damaged_files(dists: dict[str, metadata.Distribution]) -> dict[str, str]:
    """Compare the files on disk with the list that pip kept of each distribution.

    A file that several distributions claim (mmdet's and model-index's stray
    ``tests/__init__.py``) may have the size any of them gave it.
    """
    problems: dict[str, str] = {}
    claims: dict[str, list[tuple[str, int | None]]] = defaultdict(list)
    for name, dist in dists.items():
        try:
            # Not `dist.files`, which newer Pythons clear of files that are gone.
            rows = list(csv.reader((dist.read_text('RECORD') or '').splitlines()))
            files = [(file, int(size) if size else None) for file, _, size in rows]
        except ValueError:  # the list itself broke off
            files = []
        if not files or not dist.read_text('INSTALLER'):
            problems[name] = 'was installed only in part'
            continue
        root = str(dist.locate_file(''))
        for file, size in files:
            if not file.endswith('.pyc'):
                path = os.path.normpath(os.path.join(root, file))
                claims[path].append((name, size))
    for path, owners in claims.items():
        try:
            size = os.stat(path).st_size
        except OSError:
            size = None
        if size is None or not any(claim in (size, None) for _, claim in owners):
            for name, _ in owners:
                problems.setdefault(name, f'has a missing or changed file, {path}')
    return problems


def try_operators() -> None:
    """Run one of mmcv's compiled operators.

    A library compiled for another torch fails to import.
    """
    torch = importlib.import_module('torch')
    nms = importlib.import_module('mmcv.ops').nms
    boxes = torch.tensor([[0.0, 0, 9, 9], [0, 0, 9, 8], [20, 20, 30, 30]])
    kept = nms(boxes, torch.tensor([0.9, 0.8, 0.7]), 0.5)[1].tolist()
    if kept != [0, 2]:
        raise RuntimeError(f'nms keeps {kept} instead of [0, 2]')


def broken_imports(names: list[str], dense: bool) -> dict[str, str]:
    """Import what no list of files shows to be broken; stop at the first finding."""
    modules = {'opencv-python-headless': 'cv2', 'torch': 'torch'}
    modules.update((name, 'mmcv') for name in MMCV if name in names)
    modules.update((name, IMPORTS[name]) for name in IMPORTS if name in names)
    for name, module in modules.items():
        try:
            importlib.import_module(module)
            if name in MMCV and dense:
                try_operators()
        except Exception as error:  # whatever a broken package raises is the finding
            reason = ' '.join(str(error).split())[:300]
            return {name: f'does not work: {type(error).__name__}: {reason}'}
    return {}


def find_problems(
    dense: bool, files: list[str], repository: str, thorough: bool
) -> dict[str, str]:
    """Return what is wrong, by package; empty if all is well.

    Args:
        dense (bool): Whether mmcv must have its operators.
        files (list): The requirement files to compare with.
        repository (str): Where the editable install of mmbam must point.
        thorough (bool): Import every main package instead of OpenCV and mmcv alone.
    """
    dists = installed()
    pins = read_pins(files)
    if dense or 'mmcv' in dists:  # mmcv can all that mmcv-lite can
        pins.pop('mmcv-lite', None)
    problems = {}
    for name, version in pins.items():
        if name not in dists:
            problems[name] = MISSING
        elif dists[name].version != version:
            problems[name] = f'is {dists[name].version} instead of {version}'
    for name, rivals in RIVALS.items():
        for rival in rivals:
            if rival in dists and (name in dists or name in pins):
                problems[rival] = f'writes into the folder of {name}'
                if name in dists:
                    problems[name] = f'shares its folder with {rival}'
    ours = [name for name in dists if name in pins or name == 'mmcv']
    for name, what in damaged_files(dists).items():
        if name in ours:
            problems.setdefault(name, what)
    if 'mmbam' not in dists:
        problems['mmbam'] = MISSING
    else:
        source = json.loads(dists['mmbam'].read_text('direct_url.json') or '{}')
        if source.get('url') != Path(repository).as_uri():
            problems['mmbam'] = f'is not the one in {repository}'
    names = ours if thorough else [name for name in ours if name in MMCV]
    return problems or broken_imports(names, dense)


if __name__ == '__main__':
    # The last line is the answer: a package may print while it is imported.
    print('\n' + json.dumps(find_problems(**json.loads(sys.argv[1]))))
