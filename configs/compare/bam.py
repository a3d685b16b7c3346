"""BAM without a teacher, and so with batch norm in the projector."""

_base_ = 'bam-teacher.py'

method = dict(
    title='BAM',
    own='tau 0.1, tau_B 0.05, 3 iterations of balancing, positives masked; '
    'batch norm in the projector',
)
model = dict(neck=dict(norm_cfg=dict(type='BN1d')), teacher=None)
