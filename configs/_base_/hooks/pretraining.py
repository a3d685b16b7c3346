"""Hooks of pre-training with ContrastiveCrop."""

custom_hooks = [
    dict(type='mmbam.SeedByEpochHook'),
    # App. G: random crops for 40 epochs, then boxes that are updated every 20 epochs.
    dict(type='mmbam.LocalizeHook', start_epoch=40, interval=20),
    # Logs health signs, and stops a run that is dead.
    dict(type='mmbam.MonitorHook', interval=50),
]
