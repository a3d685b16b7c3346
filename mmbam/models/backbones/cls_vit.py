"""A ViT whose last block computes only [cls] in training."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from mmpretrain.models.backbones.vision_transformer import TransformerEncoderLayer
from mmpretrain.models.selfsup import MoCoV3ViT
from torch import Tensor

from mmbam.registry import MODELS


@MODELS.register_module()
class ClsViT(MoCoV3ViT):
    """MoCo v3's ViT without needless work in its last block.

    Only [cls] reaches the loss, so in training the last block computes its output for
    [cls] alone. Outputs, gradients and the names of the weights are the same as in
    :class:`mmpretrain.models.selfsup.MoCoV3ViT`. In evaluation mode the last block
    computes all tokens.

    Args:
        **kwargs: Arguments of ``MoCoV3ViT``. Unless ``out_type`` is ``'cls_token'``,
            the last block computes all tokens in training too.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        if self.out_type == 'cls_token':
            # Keeps the weights and their names; only forward changes.
            self.layers[-1].__class__ = ClsBlock


class ClsBlock(TransformerEncoderLayer):
    """A transformer block that returns only [cls] in training."""

    def forward(self, x: Tensor) -> Tensor:
        """Turn tokens (n, l, c) into [cls] (n, 1, c), in evaluation into all tokens."""
        if not self.training:
            return super().forward(x)
        cls = x[:, :1] + self._attend(self.ln1(x))
        return self.ffn(self.ln2(cls), identity=cls)

    def _attend(self, x: Tensor) -> Tensor:
        """Compute the attention output for [cls].

        One query needs no keys and values: ``q . (K x) = (q K) . x``, and the mean of
        ``V x`` is V times the mean of ``x``. A token then costs two products of width x
        heads instead of two of width x width. The bias of the keys adds the same to all
        scores of a row, which the soft-max ignores.
        """
        attn = self.attn
        n, _, width = x.shape
        weights = attn.qkv.weight.view(3, attn.num_heads, attn.head_dims, width)
        to_query, to_key, to_value = weights
        bias = attn.qkv.bias
        if bias is not None:
            bias = bias.view(3, attn.num_heads, 1, attn.head_dims)
        # Shape (heads, n, d): one matrix product for each head.
        query = x[:, 0] @ to_query.transpose(1, 2)
        if bias is not None:
            query = query + bias[0]
        query = (query * attn.head_dims**-0.5) @ to_key
        # Scores in float32 under autocast too, as in fused attention.
        full = torch.promote_types(x.dtype, torch.float32)
        with torch.autocast(x.device.type, enabled=False):
            scores = query.transpose(0, 1).to(full) @ x.transpose(1, 2).to(full)
            attention = scores.softmax(dim=-1).to(x.dtype)
        attention = F.dropout(attention, attn.attn_drop, self.training)
        out = (attention @ x).transpose(0, 1) @ to_value.transpose(1, 2)
        if bias is not None:
            out = out + bias[2] * attention.sum(dim=-1).T.unsqueeze(-1)
        out = attn.proj(out.transpose(0, 1).reshape(n, 1, width))
        return attn.out_drop(attn.gamma1(attn.proj_drop(out)))
