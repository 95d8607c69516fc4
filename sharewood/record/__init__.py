"""Records that both parties sign: how a run ends with one, and how it is verified years later."""
