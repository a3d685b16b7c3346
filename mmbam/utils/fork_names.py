"""Let configs inherit from mmsegmentation's where it comes as the fork.

mmengine finds the folder of ``'mmseg::_base_/...'`` by the name of the distribution. It
asks for mmsegmentation even where the fork ``onedl-mmsegmentation`` is installed. For
the other projects it also tries the name of the module, which works for both.
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
