"""Models to try the check-up on: a healthy one in nothing but torch, and eight that are sick."""
