"""Collapses: Table 1 has it to show why B is balanced."""

_base_ = '../vit-s16_150e.py'

model = dict(head=dict(loss=dict(balanced=False)))
