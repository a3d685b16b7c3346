"""Pictures of what a network learned and of how a run went.

Every ``draw_*`` function writes one PNG to ``path`` and makes its folder if need be.
"""
