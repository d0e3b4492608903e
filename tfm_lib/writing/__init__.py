"""How a trained model writes, how its texts are scored, and what can be seen of it meanwhile."""
