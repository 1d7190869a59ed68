"""Optimized HLO, read: instructions, collectives with their loops, participants and origins."""
