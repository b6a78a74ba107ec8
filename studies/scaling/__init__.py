"""Theorem and measurement side by side: planned runs, and exponents in ε, δ and d."""
