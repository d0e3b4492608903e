"""How a model learns, alone and with others, and what is kept of that in a file."""
