"""The head: calls the loss and reports the method's health signs."""

from __future__ import annotations

from mmengine.model import BaseModule
from torch import Tensor, nn

from mmbam.registry import MODELS


@MODELS.register_module()
class BAMHead(BaseModule):
    """Loss of BAM with what is worth logging beside it.

    Args:
        loss (dict | nn.Module): The loss module, :class:`BAMLoss` in general.
        init_cfg (dict, optional): Defaults to None.
    """

    def __init__(self, loss: dict | nn.Module, init_cfg: dict | None = None) -> None:
        super().__init__(init_cfg)
        self.loss_module = MODELS.build(loss) if isinstance(loss, dict) else loss

    def loss(self, z: Tensor, z_target: Tensor | None = None) -> dict[str, Tensor]:
        """Compute the loss of a batch.

        Args:
            z (Tensor): Latents of all views, see :class:`BAMLoss`.
            z_target (Tensor, optional): The teacher's latents. Defaults to None.

        Returns:
            dict[str, Tensor]: ``loss``, and the entropies of A and B in nats.
        """
        loss = self.loss_module(z, z_target)
        return dict(loss=loss, **self.loss_module.stats)
