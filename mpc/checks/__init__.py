"""The audit (`--audit`): values that must be zero, local work that is repeated, and the verdict on both."""
