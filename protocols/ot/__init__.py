"""Oblivious transfer between two parties: base OT, correlated OT by extension with its check, and pads made from it."""
