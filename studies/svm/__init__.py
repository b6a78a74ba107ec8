"""The paper's first experiment: capped-ℓ₁ SVM, every value counted."""
