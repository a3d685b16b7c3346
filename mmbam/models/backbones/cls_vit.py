"""A ViT that computes for training only what training uses."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from mmpretrain.models.backbones.vision_transformer import TransformerEncoderLayer
from mmpretrain.models.selfsup import MoCoV3ViT
from torch import Tensor

from mmbam.registry import MODELS


@MODELS.register_module()
class ClsViT(MoCoV3ViT):
    """MoCo v3's ViT whose last block, in training, computes [cls] alone.

    Of the last block's output the loss sees one token, and that token needs no more of
    the others than their mean under its attention: with their queries, keys, values,
    projection and MLP nearly the whole block is left out. Output, gradients and names
    of weights are those of :class:`mmpretrain.models.selfsup.MoCoV3ViT`, and so is all
    that it returns in evaluation mode, where patches may be looked at.

    Args:
        **kwargs: Those of ``MoCoV3ViT``. With another ``out_type`` than
            ``'cls_token'`` the last block computes all tokens in training too.
    """

    def __init__(self, **kwargs) -> None:
        super().__init__(**kwargs)
        if self.out_type == 'cls_token':
            # The same block with the same weights; only what it computes is another.
            self.layers[-1].__class__ = ClsBlock


class ClsBlock(TransformerEncoderLayer):
    """A block that returns [cls] alone in training."""

    def forward(self, x: Tensor) -> Tensor:
        """From all tokens (n, l, c) to the first (n, 1, c), or in evaluation to all."""
        if not self.training:
            return super().forward(x)
        cls = x[:, :1] + self._attend(self.ln1(x))
        return self.ffn(self.ln2(cls), identity=cls)

    def _attend(self, x: Tensor) -> Tensor:
        """What [cls] gathers from all tokens.

        With one query, keys and values need not be computed: ``q . (K x)`` is
        ``(q K) . x``, and a mean of ``V x`` is V of the mean of ``x``. What would be
        two products per token, of the network's width squared each, is two of its
        width times the number of heads. A bias of the keys adds the same to all tokens
        and changes nothing.
        """
        attn = self.attn
        n, _, width = x.shape
        weights = attn.qkv.weight.view(3, attn.num_heads, attn.head_dims, width)
        to_query, to_key, to_value = weights
        bias = attn.qkv.bias
        if bias is not None:
            bias = bias.view(3, attn.num_heads, 1, attn.head_dims)
        # Heads come first, then images: one product for each head.
        query = x[:, 0] @ to_query.transpose(1, 2)
        if bias is not None:
            query = query + bias[0]
        query = (query * attn.head_dims**-0.5) @ to_key
        # Scores in float32 even beside half floats, as fused attention has them.
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
