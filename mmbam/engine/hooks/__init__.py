"""Hooks, each optional."""

from .knn_hook import KNNHook
from .localize_hook import LocalizeHook
from .pretrained_hook import PretrainedBackboneHook
from .seed_by_epoch_hook import SeedByEpochHook

__all__ = ['KNNHook', 'LocalizeHook', 'PretrainedBackboneHook', 'SeedByEpochHook']
