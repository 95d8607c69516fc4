"""Before a job: keys, configurations, checks, plans, schema files."""
