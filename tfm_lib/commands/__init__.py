"""What `python -m tfm_lib` and make run."""
