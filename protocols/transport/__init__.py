"""Bytes between two processes: codec, frames, and channels over memory or mutual TLS."""
