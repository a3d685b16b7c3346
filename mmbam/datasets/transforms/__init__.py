"""Transforms from an image to its views."""

from .seed_by_sample import SeedBySample

__all__ = ['SeedBySample']
