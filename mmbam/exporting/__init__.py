"""Backbones written for other libraries, each with a proof.

Not named after the command, so that ``mmbam.export`` can be its function.
"""

from .export import FORMATS, export_backbone

__all__ = ['FORMATS', 'export_backbone']
