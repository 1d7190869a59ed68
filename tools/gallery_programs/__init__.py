"""Training steps written with the code of public packages, for tools/gallery.py. One file per package."""
