"""Let configs inherit from mmsegmentation's where it comes as the fork.

mmengine finds the folder of ``'mmseg::_base_/...'`` by the name of the distribution,
and asks for the classic one, mmsegmentation, also where all of OpenMMLab comes as the
forks (``onedl-mmsegmentation``). The names of the others are those of their modules,
which it tries as well.
"""

from __future__ import annotations

from importlib import metadata


def know_forks() -> None:
    """Correct mmengine's table of names; does nothing on the classic stack."""
    try:
        metadata.version('onedl-mmsegmentation')
    except metadata.PackageNotFoundError:
        return
    from mmengine.config.utils import MODULE2PACKAGE

    MODULE2PACKAGE['mmseg'] = 'mmseg'
