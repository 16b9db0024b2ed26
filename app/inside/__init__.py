"""Inside a run: its clients, their clusters, what its models have learned, and where its time went."""
