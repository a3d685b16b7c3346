"""A small world made on the spot from the photographs inside scikit-image."""

from .make import make_world
from .photographs import PHOTOGRAPHS, class_names, load_photograph

__all__ = ['PHOTOGRAPHS', 'class_names', 'load_photograph', 'make_world']
