"""Configs inherit from the other projects', under whatever name those come."""

from importlib import metadata

import pytest
from mmengine.config import Config
from mmengine.config.utils import MODULE2PACKAGE

from mmbam.utils import fork_names


@pytest.mark.parametrize('base', ['mmdet', 'mmseg', 'mmpretrain'])
def test_configs_of_every_project_are_found(tmp_path, base):
    path = tmp_path / 'config.py'
    path.write_text(f"_base_ = '{base}::_base_/default_runtime.py'")
    assert Config.fromfile(path).default_scope == base


def test_only_the_fork_changes_the_names(monkeypatch):
    def version(name):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return '1'

    monkeypatch.setattr(fork_names.metadata, 'version', version)
    monkeypatch.setitem(MODULE2PACKAGE, 'mmseg', 'mmsegmentation')
    installed = ['mmsegmentation']
    fork_names.know_forks()
    assert MODULE2PACKAGE['mmseg'] == 'mmsegmentation'
    installed = ['onedl-mmsegmentation']
    fork_names.know_forks()
    assert MODULE2PACKAGE['mmseg'] == 'mmseg'
