"""What the page Set up is made of: the draft, its sections, the preview of the split, and what the runs will cost."""
