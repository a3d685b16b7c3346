"""UPerNet with ViT-B on ADE20K; 46.1 mIoU and 56.6 mAcc in the paper.

The paper names the decoder only. The rest is iBOT's recipe: blocks, norms, layer-wise
decay, learning rate and sliding test.

    MMBAM_CHECKPOINT=pretrained.pth tools/dist_train.sh \
        configs/benchmarks/ade20k/vit-b16_upernet_160k.py 8
"""

_base_ = [
    'mmseg::_base_/models/upernet_mae.py',
    'mmseg::_base_/datasets/ade20k.py',
    'mmseg::_base_/schedules/schedule_160k.py',
    'mmseg::_base_/default_runtime.py',
    '../../_base_/hooks/pretrained_backbone.py',
]

data_preprocessor = dict(size=(512, 512))
model = dict(
    data_preprocessor=data_preprocessor,
    # mmpretrain's VisionTransformer with the final norm on every map. Positions and
    # patch projection are trained, as in fine-tuning. It resizes the 14 x 14 positions
    # of pre-training to the size of every batch.
    backbone=dict(
        _delete_=True,
        type='mmbam.NormedMapsViT',
        arch=dict(
            embed_dims=768, num_layers=12, num_heads=12, feedforward_channels=3072
        ),
        img_size=224,
        patch_size=16,
        drop_path_rate=0.1,
        # Blocks 4, 6, 8 and 12.
        out_indices=(3, 5, 7, 11),
        out_type='featmap',
    ),
    neck=dict(embed_dim=768, norm_cfg=dict(type='SyncBN', requires_grad=True)),
    # The decoder is as wide as the ViT, as in mmsegmentation's configs of MAE.
    decode_head=dict(in_channels=[768] * 4, channels=768, num_classes=150),
    auxiliary_head=dict(in_channels=768, num_classes=150),
    test_cfg=dict(mode='slide', crop_size=(512, 512), stride=(341, 341)),
)

train_dataloader = dict(batch_size=2)  # x 8 GPUs = 16

optim_wrapper = dict(
    optimizer=dict(_delete_=True, type='AdamW', lr=8e-5, weight_decay=0.05),
    constructor='mmbam.LayerDecayOptimWrapperConstructor',
    paramwise_cfg=dict(
        layer_decay_rate=0.65,
        flat_decay_mult=0.0,
        custom_keys={
            '.cls_token': dict(decay_mult=0.0),
            '.pos_embed': dict(decay_mult=0.0),
        },
    ),
)
param_scheduler = [
    dict(type='LinearLR', start_factor=1e-6, by_epoch=False, begin=0, end=1500),
    dict(type='PolyLR', eta_min=0.0, power=1.0, by_epoch=False, begin=1500, end=160000),
]
auto_scale_lr = dict(base_batch_size=16, enable=False)

randomness = dict(seed=0)
