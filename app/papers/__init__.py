"""The papers' figures and tables: which runs belong to them, how far those are, and the printed numbers beside ours."""
