"""Meshes, shardings, collectives, and what Shardy says of them when its passes run on a copy."""
