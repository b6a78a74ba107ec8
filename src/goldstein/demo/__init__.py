"""The two demos, on data that comes inside scikit-learn: `goldstein demo` and `goldstein demo-attack`."""
