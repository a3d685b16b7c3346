"""Video object segmentation by nearest neighbours of frozen features (DAVIS-2017)."""

from .davis import Video, read_davis, read_labels, write_labels
from .evaluate import score_video, segment_video, segment_videos
from .neighbours import local_neighbours
from .propagation import hard_labels, propagate_labels
from .scores import boundary_f, jaccard, mean_scores, object_scores, statistics
from .tokens import FrameTokens, patch_tokens

__all__ = [
    'FrameTokens',
    'Video',
    'boundary_f',
    'hard_labels',
    'jaccard',
    'local_neighbours',
    'mean_scores',
    'object_scores',
    'patch_tokens',
    'propagate_labels',
    'read_davis',
    'read_labels',
    'score_video',
    'segment_video',
    'segment_videos',
    'statistics',
    'write_labels',
]
