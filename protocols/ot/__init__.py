"""Oblivious transfer between two semi-honest parties: base OT, correlated OT by extension, and pads made from it."""
