"""The parts of the Set up page: the draft, its sections, the preview of the split, and the cost of the runs."""
