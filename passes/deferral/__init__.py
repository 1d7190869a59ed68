"""Reductions that leave an accumulation loop: which may, which is worth it, and the edit."""
