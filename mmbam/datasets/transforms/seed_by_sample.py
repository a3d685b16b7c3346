"""A name that older configs have in their pipelines."""

from __future__ import annotations

from mmcv.transforms import BaseTransform

from mmbam.registry import TRANSFORMS


@TRANSFORMS.register_module()
class SeedBySample(BaseTransform):
    """Does nothing: :class:`mmbam.SeedByEpochHook` seeds samples without it.

    Pipelines of older configs begin with it.
    """

    def transform(self, results: dict) -> dict:
        """Return the sample unchanged."""
        return results
