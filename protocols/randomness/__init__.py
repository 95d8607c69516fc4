"""The offline phase: streams, views, the dealer."""
