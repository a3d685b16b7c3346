"""Evaluators of frozen features, and of videos (:mod:`mmbam.evaluation.video`)."""

from .clustering import cluster_scores
from .features import extract_features
from .knn import knn_accuracy, knn_predict
from .linear import linear_probe
from .loaders import build_loader
from .logistic import fit_logistic, logistic_probe
from .unlabeled import neighbour_agreement, pair_similarities, rankme

__all__ = [
    'build_loader',
    'cluster_scores',
    'extract_features',
    'fit_logistic',
    'knn_accuracy',
    'knn_predict',
    'linear_probe',
    'logistic_probe',
    'neighbour_agreement',
    'pair_similarities',
    'rankme',
]
