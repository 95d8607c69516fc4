"""On one machine: the demo, reports, formats, and what runs have left."""
