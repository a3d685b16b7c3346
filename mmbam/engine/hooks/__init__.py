"""Hooks, each optional."""

from .checkpoint_hook import CheckpointHook
from .knn_hook import KNNHook
from .localize_hook import LocalizeHook
from .monitor_hook import MonitorHook
from .page_hook import PageHook
from .pretrained_hook import PretrainedBackboneHook
from .progress_hook import ProgressHook
from .seed_by_epoch_hook import SeedByEpochHook
from .tau_b_hook import TauBHook

__all__ = [
    'CheckpointHook',
    'KNNHook',
    'LocalizeHook',
    'MonitorHook',
    'PageHook',
    'PretrainedBackboneHook',
    'ProgressHook',
    'SeedByEpochHook',
    'TauBHook',
]
