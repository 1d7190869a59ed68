"""Audits: totals, comparisons, budgets, and their forms as text, JSON, HTML and pictures."""
