"""What a user could call instead, at equal evaluations and untuned."""
