"""Sums and parameters of a global-view step: the facts about each, and one place that decides what is made of it."""
