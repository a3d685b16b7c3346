"""The head: the loss, and the entropies that are logged beside it."""

from __future__ import annotations

from mmengine.model import BaseModule
from torch import Tensor, nn

from mmbam.registry import MODELS


@MODELS.register_module()
class BAMHead(BaseModule):
    """Loss of BAM, with the entropies of A and B for the log.

    Args:
        loss (dict | nn.Module): Loss module, usually :class:`BAMLoss`.
        init_cfg (dict, optional): Initialization of the weights. Defaults to None.
    """

    def __init__(self, loss: dict | nn.Module, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.loss_module = MODELS.build(loss) if isinstance(loss, dict) else loss

    def loss(self, z: Tensor, z_target: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the loss of a batch.

        Args:
            z (Tensor): Latents of all views, see :class:`BAMLoss`.
            z_target (Tensor, optional): Latents of the teacher. Defaults to None.

        Returns:
            dict[str, Tensor]: ``loss``, and the entropies of A and B in nats.
        """
        loss = self.loss_module(z, z_target)
        return dict(loss=loss, **self.loss_module.stats)
