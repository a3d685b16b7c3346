"""How the parameters of a model are given their learning rates."""

from .layer_decay import LayerDecayOptimWrapperConstructor

__all__ = ['LayerDecayOptimWrapperConstructor']
