"""Plans: candidates for shardings, meshes and policies, compiled for a target, and the best of them."""
