"""The paper's second experiment: black-box attacks on LeNet, every query counted."""
