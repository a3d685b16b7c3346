"""Refuse, in one sentence, packages that mmbam is known not to work with.

setup.py cannot do this: the OpenMMLab stack comes as the classic packages and as
maintained forks under other names (``onedl-*``) with the same modules, and torch is
often installed by hand. Versions are read from the packages' metadata where that is
unambiguous, so that nothing is imported for the check.
"""

from __future__ import annotations

import importlib
from importlib import metadata, util
from typing import NamedTuple

from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion, Version


class Package(NamedTuple):
    """A module and the versions that work, by the name it is distributed under."""

    module: str
    ranges: dict[str, str]

    def __str__(self) -> str:
        return ' or '.join(f'{name} {span}' for name, span in self.ranges.items())


CORE = (
    # torch.compiler and the multi-tensor lerp of the teacher came with 2.1.
    Package('torch', {'torch': '>=2.1'}),
    # 0.16 is made for torch 2.1.
    Package('torchvision', {'torchvision': '>=0.16'}),
    # 0.10.4 is the oldest that the command-line tools were tried with; all of classic
    # OpenMMLab refuses 1.0. The fork starts with 0.10.8.
    Package(
        'mmengine',
        {
            'mmengine': '>=0.10.4,<1',
            'mmengine-lite': '>=0.10.4,<1',
            'onedl-mmengine': '>=0.10.8',
        },
    ),
    # mmpretrain 1.2's own limits; the fork starts with 2.3.
    Package(
        'mmcv',
        {'mmcv': '>=2.0,<2.4', 'mmcv-lite': '>=2.0,<2.4', 'onedl-mmcv': '>=2.3'},
    ),
    # 1.2 brought the self-supervised algorithms' present form and is the last classic
    # release; the fork starts with 1.3.
    Package('mmpretrain', {'mmpretrain': '>=1.2,<1.3', 'onedl-mmpretrain': '>=1.3'}),
)
DENSE = (
    # mmdet 3.3 and mmsegmentation 1.2 refuse 2.2.
    Package('mmcv', {'mmcv': '>=2.0,<2.2', 'onedl-mmcv': '>=2.3'}),
    # 3.3 and 1.2.2 are the last classic releases. 3.5 and 1.4 are the forks' releases
    # that fit torch 2.8 and numpy 2.
    Package('mmdet', {'mmdet': '>=3.3,<3.4', 'onedl-mmdetection': '>=3.5'}),
    Package(
        'mmseg', {'mmsegmentation': '>=1.2.2,<1.3', 'onedl-mmsegmentation': '>=1.4'}
    ),
)


def installed_versions(package: Package) -> dict[str, str]:
    """Versions of the package by distribution; empty if it is not installed.

    Where no or several distributions claim the module (a checkout on the path, mmcv
    beside mmcv-lite), what the module itself says counts.
    """
    found = {}
    for name in package.ranges:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    if len(found) == 1:
        return found
    if not found and util.find_spec(package.module) is None:
        return {}
    version = importlib.import_module(package.module).__version__
    return dict.fromkeys(found or package.ranges, version)


def check(package: Package) -> None:
    """Raise ImportError unless a version that works is installed."""
    found = installed_versions(package)
    if not found:
        raise ImportError(f'mmbam needs {package}, but {package.module} is missing.')
    for name, version in found.items():
        try:
            # Nightly builds and builds for one CUDA version count like releases.
            if SpecifierSet(package.ranges[name]).contains(Version(version), True):
                return
        except InvalidVersion:
            continue
    name, version = next(iter(found.items()))
    raise ImportError(f'mmbam needs {package}, but {name} {version} is installed.')


def check_numpy() -> None:
    """Raise ImportError if torch was built for an older numpy than is installed.

    torch of before 2.3 starts with numpy 2, but cannot pass an array to it.
    """
    try:
        torch, numpy = (metadata.version(name) for name in ('torch', 'numpy'))
        wrong = Version(torch) < Version('2.3') and Version(numpy) >= Version('2')
    except (metadata.PackageNotFoundError, InvalidVersion):
        return
    if wrong:
        raise ImportError(
            f'mmbam needs numpy <2 with torch {torch}, but numpy {numpy} is installed '
            "(pip install 'numpy<2')."
        )


def require_core() -> None:
    """Check what pre-training needs, and name all that does not fit.

    ``import mmbam`` calls this.
    """
    wrong = []
    for package in CORE:
        try:
            check(package)
        except ImportError as error:
            wrong.append(str(error))
    try:
        check_numpy()
    except ImportError as error:
        wrong.append(str(error))
    if wrong:
        raise ImportError('\n'.join(wrong))


def require_dense(*modules: str) -> None:
    """Check what detection and segmentation need, mmcv's operators included.

    ``modules`` are those of ``mmdet`` and ``mmseg`` in use, by default both.
    """
    for package in DENSE:
        if not modules or package.module in ('mmcv', *modules):
            check(package)
    if util.find_spec('mmcv._ext') is None:
        raise ImportError(
            'mmbam needs mmcv with its compiled operators for detection and '
            'segmentation, but the mmcv that is installed has none (mmcv-lite, or '
            'built with MMCV_WITH_OPS=0).'
        )
