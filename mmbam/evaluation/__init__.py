"""Evaluators: functions on features first."""

from .features import extract_features
from .knn import knn_accuracy, knn_predict
from .loaders import build_loader

__all__ = ['build_loader', 'extract_features', 'knn_accuracy', 'knn_predict']
