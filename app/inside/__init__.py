"""Inside a run: who its clients are, how they cluster, what its models have learnt, and where its time went."""
