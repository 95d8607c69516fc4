"""Shares with MACs (`--mac`): what prediction computes on them; every opening is checked."""
