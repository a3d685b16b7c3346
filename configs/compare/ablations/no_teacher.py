"""Table 1 at small scale: without a teacher."""

_base_ = 'full.py'

method = dict(
    title='no teacher',
    own='tau 0.1, tau_B 0.03, 3 iterations of balancing, batch norm in the projector',
)
model = dict(teacher=None)
