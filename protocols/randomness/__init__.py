"""The offline phase: streams, hands, the dealer."""
