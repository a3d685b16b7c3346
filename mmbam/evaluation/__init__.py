"""Evaluators: functions on features first."""

from .features import extract_features
from .knn import knn_accuracy, knn_predict

__all__ = ['extract_features', 'knn_accuracy', 'knn_predict']
