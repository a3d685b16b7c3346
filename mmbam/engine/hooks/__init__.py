"""Hooks, each optional."""

from .knn_hook import KNNHook

__all__ = ['KNNHook']
