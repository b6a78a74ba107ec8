"""Estimates of gradients from values, and the constants of smoothing."""
