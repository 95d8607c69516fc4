"""What the two parties agree on before a step begins. Both refuse to continue where their values differ."""
