"""Configs inherit from ours and from other projects', whatever those are called."""

from importlib import metadata
from pathlib import Path

import pytest
from mmengine.config import Config, config
from mmengine.config.utils import MODULE2PACKAGE
from mmengine.hub import get_config

import mmbam
from mmbam.utils import config_names
from mmbam.utils.config import read_config


@pytest.mark.parametrize('base', ['mmdet', 'mmseg', 'mmpretrain'])
def test_configs_of_every_project_are_found(tmp_path, base):
    path = tmp_path / 'config.py'
    path.write_text(f"_base_ = '{base}::_base_/default_runtime.py'")
    assert Config.fromfile(path).default_scope == base


OURS = Path(mmbam.__file__).parent / '.mim' / 'configs'


@pytest.mark.parametrize('name', ['bam/vit-b16_300e.py', 'tiny/bam_resnet_32px.py'])
def test_a_config_of_ours_says_the_same_by_name_as_by_path(tmp_path, name):
    path = tmp_path / 'config.py'
    path.write_text(f"_base_ = 'mmbam::{name}'")
    expected = Config.fromfile(OURS / name).to_dict()
    assert Config.fromfile(path).to_dict() == expected, 'no type in another scope'
    assert get_config(f'mmbam::{name}').to_dict() == expected
    assert read_config(f'mmbam::{name}').to_dict() == expected


def test_only_the_fork_changes_the_names(monkeypatch):
    def version(name):
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return '1'

    monkeypatch.setattr(config_names.metadata, 'version', version)
    monkeypatch.setattr(Config, '_get_cfg_path', Config._get_cfg_path)
    monkeypatch.setitem(MODULE2PACKAGE, 'mmseg', 'mmsegmentation')
    installed = ['mmsegmentation']
    config_names.complete(config)
    assert MODULE2PACKAGE['mmseg'] == 'mmsegmentation'
    installed = ['onedl-mmsegmentation']
    config_names.complete(config)
    assert MODULE2PACKAGE['mmseg'] == 'mmseg'
