"""What crosses a process boundary: channels, oblivious transfer, the offline phase, processes; and the baselines."""
