"""Mixed precision without a GPU, and learning rates layer by layer."""

from .autocast import AutocastOptimWrapper
from .layer_decay import LayerDecayOptimWrapperConstructor

__all__ = ['AutocastOptimWrapper', 'LayerDecayOptimWrapperConstructor']
